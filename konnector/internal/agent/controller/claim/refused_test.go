package claim

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/fakeapi"
)

// Who denies chooses the code, and some of them mean other things where the API server itself
// gives them.
func TestADenialIsARefusalWhateverItsCode(t *testing.T) {
	for _, code := range []int32{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusTeapot} {
		denied := webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "not on Fridays", Code: code})
		var refusal *refusedError
		if err := inStep().refusedFile(denied); !errors.As(err, &refusal) || refusal.file != `admission webhook "hook.example.org" denied the request: not on Fridays` {
			t.Errorf("%d: %v", code, err)
		}
		if err := moved(denied); errors.Is(err, errMoved) {
			t.Errorf("%d: it is taken for another version of the object", code)
		}
	}
	if !isTrouble(denied(fakeapi.PolicyDenies(schema.GroupResource{Resource: "databases"}, "orders", "freeze", "not now"))) {
		t.Error("nobody is told what the konnector may not note")
	}
	if reason, message := explain(denied(fakeapi.PolicyDenies(schema.GroupResource{Resource: "databases"}, "orders", "freeze", "not now"))); reason != "Denied" || !strings.Contains(message, "not now") {
		t.Errorf("%s: %s", reason, message)
	}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "databases"}, "orders", errors.New("the object has been modified"))
	if err := inStep().refusedFile(conflict); !errors.Is(err, errMoved) {
		t.Errorf("another version: %v", err)
	}
}

// By the contract such a file is a claim, so the control plane may order the service.
func TestL15_AFileWhoseBaseHasNoRoomIsHeldAndTold(t *testing.T) {
	t.Parallel()
	data, err := contract.Encode(version(noise(300 << 10)))
	if err != nil || contract.TooLarge(data) != "" {
		t.Fatal(err, contract.TooLarge(data))
	}
	w := newGitWorld(t)
	w.agreed()
	w.write("main", key.Path(), data)
	if _, err := w.main.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	result, err := w.r.bringInStep(t.Context(), key, w.object())
	held := conditionIn(w.object(), conditionHeld)
	if err != nil || result.RequeueAfter == 0 || held == nil || held.reason != "FileRefused" || !strings.Contains(held.message, "too large") {
		t.Errorf("of an object: %v, %v, %+v", result, err, held)
	}

	u := w.object()
	u.SetFinalizers(nil)
	if err := errors.Join(w.server.Update(t.Context(), u), w.server.Delete(t.Context(), u)); err != nil {
		t.Fatal(err)
	}
	result, err = w.r.bringInStep(t.Context(), key, nil)
	if n, files := w.r.held.list(1); err != nil || result.RequeueAfter == 0 || n != 1 || files[0].Reason != "FileRefused" || !strings.Contains(files[0].Message, "too large") {
		t.Errorf("without one: %v, %v, %+v", result, err, files)
	}
}

// What is wrong with an object stays so when it is sent again: only its author can help.
func TestL15_WhatIsNotValidOnceItIsNotedIsTold(t *testing.T) {
	t.Parallel()
	for code, told := range map[int32]bool{
		http.StatusBadRequest: true, http.StatusRequestEntityTooLarge: true, http.StatusUnprocessableEntity: true,
		http.StatusForbidden: false, http.StatusTooManyRequests: false, http.StatusInternalServerError: false,
	} {
		w := newGitWorld(t)
		w.r.client = newNotingClient(interceptor.NewClient(w.server, interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: "metadata.annotations: Too long"}}
			},
		}), &written{})
		_, err := w.r.patch(t.Context(), w.object(), metadata{changedBy: new("")})
		if err == nil || isTrouble(err) != told {
			t.Errorf("%d: told: %v, want %v: %v", code, isTrouble(err), told, err)
		}
		if reason, message := explain(err); told && (reason != "Denied" || !strings.Contains(message, "Too long")) {
			t.Errorf("%d: %s: %s", code, reason, message)
		}
	}
}
