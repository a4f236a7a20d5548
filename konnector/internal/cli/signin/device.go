package signin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/oauth2"

	"gitbind.dev/konnector/internal/cli/output"
)

// withDevice asks the person to confirm a code on any device with a browser.
func (i *issuer) withDevice(ctx context.Context, _ How) (token, error) {
	if i.config.Endpoint.DeviceAuthURL == "" {
		return token{}, fmt.Errorf("sign in: %s does not offer device codes: sign in with a browser, without --device", i.name)
	}
	ctx = i.client(ctx)
	grant, err := i.config.DeviceAuth(ctx)
	if err != nil {
		return token{}, fmt.Errorf("sign in: get a device code from %s: %w", i.name, said(err))
	}
	if err := i.checkPages(grant); err != nil {
		return token{}, fmt.Errorf("sign in: get a device code from %s: %w", i.name, err)
	}
	if grant.VerificationURIComplete != "" {
		i.tell("To sign in, open this address on any device:\n\n  %s\n\nand confirm that it shows the code %s.\n", grant.VerificationURIComplete, output.Line(grant.UserCode))
	} else {
		i.tell("To sign in, open this address on any device:\n\n  %s\n\nand enter the code %s.\n", grant.VerificationURI, output.Line(grant.UserCode))
	}
	answer, err := i.config.DeviceAccessToken(ctx, grant)
	if err != nil {
		return token{}, fmt.Errorf("sign in with a device code: %w", said(err))
	}
	return i.verify(ctx, answer, "")
}

// checkPages refuses to show a person what is no page of the web.
func (i *issuer) checkPages(grant *oauth2.DeviceAuthResponse) error {
	if err := checkAddress(i.name, grant.VerificationURI); err != nil {
		return fmt.Errorf("its verification_uri: %w", err)
	}
	if grant.VerificationURIComplete == "" {
		return nil
	}
	if err := checkAddress(i.name, grant.VerificationURIComplete); err != nil {
		return fmt.Errorf("its verification_uri_complete: %w", err)
	}
	return nil
}

// said takes from an error what the issuer said, without the response's body.
func said(err error) error {
	var refused *oauth2.RetrieveError
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.ErrorCode == "":
		return fmt.Errorf("the issuer answered %s", strings.ToLower(refused.Response.Status))
	case refused.ErrorDescription != "":
		return fmt.Errorf("the issuer said: %.500s (%.100s)", output.Line(refused.ErrorDescription), output.Line(refused.ErrorCode))
	}
	return fmt.Errorf("the issuer said: %.100s", output.Line(refused.ErrorCode))
}
