package signin

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/oauth2"
)

// withDevice asks the person to confirm a code on any device with a browser.
func (i *issuer) withDevice(ctx context.Context, _ How) (token, error) {
	if i.config.Endpoint.DeviceAuthURL == "" {
		return token{}, fmt.Errorf("sign in: %s does not offer device codes: sign in with a browser, without --device", i.name)
	}
	ctx = i.client(ctx)
	grant, err := i.config.DeviceAuth(ctx)
	if err != nil {
		return token{}, fmt.Errorf("sign in: get a device code from %s: %w", i.name, err)
	}
	if grant.VerificationURIComplete != "" {
		i.tell("To sign in, open this address on any device:\n\n  %s\n\nand confirm that it shows the code %s.\n", grant.VerificationURIComplete, grant.UserCode)
	} else {
		i.tell("To sign in, open this address on any device:\n\n  %s\n\nand enter the code %s.\n", grant.VerificationURI, grant.UserCode)
	}
	answer, err := i.config.DeviceAccessToken(ctx, grant)
	if err != nil {
		return token{}, fmt.Errorf("sign in with a device code: %w", said(err))
	}
	return i.verify(ctx, answer, "")
}

// said takes from an error what the issuer said, without the response's body.
func said(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.ErrorCode == "" {
		return err
	}
	if refused.ErrorDescription != "" {
		return fmt.Errorf("the issuer said: %s (%s)", refused.ErrorDescription, refused.ErrorCode)
	}
	return fmt.Errorf("the issuer said: %s", refused.ErrorCode)
}
