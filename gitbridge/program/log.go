package program

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/go-logr/logr"
)

// SetLog makes what the flags say the log of this process: of our own code, and of
// the libraries too.
func (o Options) SetLog() (logr.Logger, error) {
	if o.Verbose {
		o.Log.LogLevel = "debug"
	}
	// fluxcd's logger takes another one for what it wants where it does not know it.
	if !slices.Contains([]string{"trace", "debug", "info", "error"}, o.Log.LogLevel) {
		return logr.Logger{}, fmt.Errorf("--log-level is %q: trace, debug, info or error", o.Log.LogLevel)
	}
	if !slices.Contains([]string{"json", "console"}, o.Log.LogEncoding) {
		return logr.Logger{}, fmt.Errorf("--log-encoding is %q: json or console", o.Log.LogEncoding)
	}
	log := logger.NewLogger(o.Log)
	logger.SetLogger(log)
	slog.SetDefault(Slog(log))
	return log, nil
}

// Slog is a log for code that logs with slog. What is debug there is debug here.
func Slog(log logr.Logger) *slog.Logger { return slog.New(debugOf{logr.ToSlogHandler(log)}) }

// debugOf brings slog's level of debug, -4, to logr's, which is 1.
type debugOf struct{ slog.Handler }

func leveled(l slog.Level) slog.Level {
	if l <= slog.LevelDebug {
		return -logger.DebugLevel
	}
	return l
}

func (d debugOf) Enabled(ctx context.Context, l slog.Level) bool {
	return d.Handler.Enabled(ctx, leveled(l))
}

func (d debugOf) Handle(ctx context.Context, r slog.Record) error {
	r.Level = leveled(r.Level)
	return d.Handler.Handle(ctx, r)
}

func (d debugOf) WithAttrs(a []slog.Attr) slog.Handler { return debugOf{d.Handler.WithAttrs(a)} }
func (d debugOf) WithGroup(name string) slog.Handler   { return debugOf{d.Handler.WithGroup(name)} }
