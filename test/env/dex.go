package env

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/crypto/bcrypt"
)

// The users that Dex knows: their e-mail addresses and passwords. None of them
// has any right until somebody grants it.
const (
	Alice         = "alice@example.com"
	AlicePassword = "alice-test-password"
	Bob           = "bob@example.com"
	BobPassword   = "bob-test-password"
	Carol         = "carol@example.com"
	CarolPassword = "carol-test-password"
)

// ClientID is the public client that Dex knows. It may use the authorization
// code grant with PKCE and a redirect to any port and path of
// http://localhost (Dex refuses 127.0.0.1 there), the device code grant, and
// refresh tokens.
const ClientID = "gitbind-cli"

// OtherClientID is another public client, of a program that is not ours.
const OtherClientID = "another-program"

// Dex is a running OpenID Connect provider.
type Dex struct {
	Issuer   string // http://127.0.0.1:PORT/dex
	ClientID string
	Users    []User
	Process  *Process `json:"-"`

	client *http.Client // that trusts it; nil for one that trusts what the system does
	tls    string       // folder of its certificate; "" without TLS
}

// A User can sign in to Dex.
type User struct {
	Email    string // claim "email", verified
	Name     string // claim "name"
	Password string
}

func people() []User {
	return []User{
		{Email: Alice, Name: "alice", Password: AlicePassword},
		{Email: Bob, Name: "bob", Password: BobPassword},
		{Email: Carol, Name: "carol", Password: CarolPassword},
	}
}

func (e *Env) startDex(ctx context.Context) (*Dex, error) {
	defer e.phase("Dex")()
	d := &Dex{ClientID: ClientID, Users: people()}
	scheme := "http"
	if e.serverCA != nil {
		scheme, d.tls = "https", filepath.Join(e.Dir, "dex-tls")
		if err := d.certify(e); err != nil {
			return nil, err
		}
	}
	return d, withPorts(ctx, 1, func(ctx context.Context, ports []int) error {
		listen := fmt.Sprintf("%s:%d", e.host(), ports[0])
		d.Issuer = scheme + "://" + listen + "/dex"
		config, err := d.config(listen)
		if err != nil {
			return err
		}
		path := filepath.Join(e.Dir, "dex.json")
		if err := os.WriteFile(path, config, 0o600); err != nil {
			return err
		}
		d.Process = e.process(dex, dex, []string{"serve", path}, httpReady(d.Issuer+"/healthz", d.client))
		return d.Process.Start(ctx)
	})
}

// certify gives it TLS.
func (d *Dex) certify(e *Env) error {
	cert, err := e.serverCA.server(e.host())
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(e.serverCA.cert)
	d.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	return writeTLS(d.tls, cert, e.serverCA)
}

func (d *Dex) config(listen string) ([]byte, error) {
	type object map[string]any
	web := object{"http": listen}
	if d.tls != "" {
		web = object{"https": listen, "tlsCert": filepath.Join(d.tls, "tls.crt"), "tlsKey": filepath.Join(d.tls, "tls.key")}
	}
	var passwords []object
	for _, u := range d.Users {
		hash, err := bcrypt.GenerateFromPassword([]byte(u.Password), bcrypt.DefaultCost)
		if err != nil {
			return nil, fmt.Errorf("hash the password of %s: %w", u.Email, err)
		}
		passwords = append(passwords, object{"email": u.Email, "username": u.Name, "userID": "id-of-" + u.Name, "hash": string(hash)})
	}
	return json.Marshal(object{
		"issuer":  d.Issuer,
		"storage": object{"type": "memory"},
		"web":     web,
		"oauth2": object{
			"skipApprovalScreen": true,
			"grantTypes": []string{
				"authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code",
			},
		},
		"staticClients":    []object{{"id": d.ClientID, "name": "gitbind", "public": true}, {"id": OtherClientID, "name": "another", "public": true}},
		"enablePasswordDB": true,
		"staticPasswords":  passwords,
	})
}

// user is the one of that address.
func user(users []User, email string) (User, error) {
	for _, u := range users {
		if u.Email == email {
			return u, nil
		}
	}
	return User{}, fmt.Errorf("sign in: there is no user %s", email)
}
