// Package encryption lets Secrets travel through Git: it makes the file of an
// EncryptedSecret, which only its recipients can read and only the bridge can have
// written, and it opens one. Encryption is age's, to X25519 keys; signatures are
// Ed25519.
//
// A file is bound to its app cluster, its claim and its name. One that was altered,
// swapped with another's, made for another cluster or by somebody else is refused
// before anything of it is decrypted. Errors never repeat a value.
package encryption
