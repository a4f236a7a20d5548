package signin

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// OpenBrowser opens an address with $BROWSER, or with what the system has for
// it.
func OpenBrowser(ctx context.Context, address string) error {
	// Anything else would be an option to the program, or start another one.
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return errors.New("only addresses of the web are opened")
	}
	command := browserCommand(runtime.GOOS, os.Getenv)
	if len(command) == 0 {
		return errors.New("there is no browser on this machine")
	}
	// The browser outlives the sign-in, and may outlive us.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], append(command[1:], address)...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

func browserCommand(goos string, getenv func(string) string) []string {
	if command := strings.Fields(getenv("BROWSER")); len(command) > 0 {
		return command
	}
	switch goos {
	case "darwin":
		return []string{"open"}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	return []string{"xdg-open"}
}
