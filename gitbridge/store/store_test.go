package store_test

import (
	"testing"

	"gitbind.dev/gitbridge/store"
)

func TestBlobHashIsGits(t *testing.T) {
	if got := store.BlobHash([]byte("hello\n")); got != "ce013625030ba8dba906f756967f9e9ca394464a" {
		t.Errorf("got %s", got)
	}
}
