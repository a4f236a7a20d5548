package program

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// levels are those that can be logged from, as zap numbers them.
var levels = map[string]zapcore.Level{
	"trace": -logger.TraceLevel, "debug": -logger.DebugLevel, "info": zapcore.InfoLevel, "error": zapcore.ErrorLevel,
}

// SetLog makes what the flags say the log of this process: of our own code, and of
// the libraries too.
func (o Options) SetLog() (logr.Logger, error) {
	if o.Verbose {
		o.Log.LogLevel = "debug"
	}
	log, err := newLogger(o.Log)
	if err != nil {
		return logr.Logger{}, err
	}
	logger.SetLogger(log)
	slog.SetDefault(Slog(log))
	return log, nil
}

// newLogger is what fluxcd's NewLogger makes, without dropping anything: that passes on
// a hundred entries a second with the same message, and one in a hundred of the others,
// so that one person's refusals would hide another's.
func newLogger(o logger.Options) (logr.Logger, error) {
	level, ok := levels[o.LogLevel]
	if !ok {
		return logr.Logger{}, fmt.Errorf("--log-level is %q: trace, debug, info or error", o.LogLevel)
	}
	config := zap.NewProductionEncoderConfig()
	config.EncodeTime = zapcore.ISO8601TimeEncoder
	var encoder zapcore.Encoder
	switch o.LogEncoding {
	case "json":
		config.EncodeLevel = logger.LowercaseLevelEncoder
		encoder = zapcore.NewJSONEncoder(config)
	case "console":
		config.EncodeLevel = logger.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(config)
	default:
		return logr.Logger{}, fmt.Errorf("--log-encoding is %q: json or console", o.LogEncoding)
	}
	stack := zapcore.PanicLevel
	if level < zapcore.InfoLevel {
		stack = zapcore.ErrorLevel
	}
	// It names an object by namespace and name.
	aware := &ctrlzap.KubeAwareEncoder{Encoder: encoder}
	return zapr.NewLogger(zap.New(zapcore.NewCore(aware, zapcore.Lock(os.Stderr), level), zap.AddStacktrace(stack))), nil
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
