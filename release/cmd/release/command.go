package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gitbind.dev/release/internal/bundle"
	"gitbind.dev/release/internal/compile"
	"gitbind.dev/release/internal/images"
	"gitbind.dev/release/internal/registry"
	"gitbind.dev/release/internal/source"
)

// flags are those that several commands have.
type flags struct{ root, out, version, registry string }

func (o *flags) add(f *pflag.FlagSet) {
	f.StringVar(&o.root, "root", ".", "the checkout")
	f.StringVar(&o.out, "out", "dist", "folder for what is made")
	f.StringVar(&o.version, "version", "", "version (default: what git describe says)")
	f.StringVar(&o.registry, "registry", "", "registry that will have the images, and a folder of it; programs and manifests name it")
}

func (o *flags) layout() string { return filepath.Join(o.out, "images") }

// builder builds programs into a folder that the caller removes.
func (o *flags) builder(ctx context.Context) (b compile.Builder, err error) {
	if b.Source, err = source.Read(ctx, o.root, o.version); err != nil {
		return b, err
	}
	b.Registry = o.registry
	b.Dir, err = filepath.Abs(filepath.Join(o.out, ".build"))
	return b, err
}

func command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "release", Short: "Make the images and the release of gitbind",
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.AddCommand(imagesCommand(), pushCommand(), folderCommand())
	return cmd
}

func imagesCommand() *cobra.Command {
	var o flags
	var archs, only []string
	cmd := &cobra.Command{
		Use: "images", Short: "Make an OCI layout of the images in OUT/images", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := o.builder(cmd.Context())
			if err != nil {
				return err
			}
			defer os.RemoveAll(b.Dir)
			results, err := images.Build(cmd.Context(), images.Options{Builder: b, Layout: o.layout(), Archs: archs, Only: only})
			for _, r := range results {
				for _, arch := range slices.Sorted(maps.Keys(r.Sizes)) {
					fmt.Fprintf(cmd.OutOrStdout(), "%s:%s linux/%s %.1f MB\n", r.Name, r.Tag, arch, float64(r.Sizes[arch])/1e6)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s:%s %s\n", r.Name, r.Tag, r.Digest)
			}
			return err
		},
	}
	o.add(cmd.Flags())
	cmd.Flags().StringSliceVar(&archs, "arch", nil, "architectures (default: amd64,arm64)")
	cmd.Flags().StringSliceVar(&only, "only", nil, "programs (default: konnector,gitbridge,backend)")
	return cmd
}

func folderCommand() *cobra.Command {
	var o flags
	var downloads string
	cmd := &cobra.Command{
		Use: "folder", Short: "Make the folder of a release: images, plugin, manifests, SBOMs, sums, notes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := o.builder(cmd.Context())
			if err != nil {
				return err
			}
			defer os.RemoveAll(b.Dir)
			return bundle.Make(cmd.Context(), bundle.Options{Builder: b, Out: o.out, Downloads: downloads})
		},
	}
	o.add(cmd.Flags())
	cmd.Flags().StringVar(&downloads, "downloads", "https://gitbind.dev/releases", "URL of the folder in which the plugin's archives will be, for krew")
	return cmd
}

func pushCommand() *cobra.Command {
	var o flags
	var plainHTTP bool
	cmd := &cobra.Command{
		Use: "push", Short: "Push the images in OUT/images to a registry",
		Long: `Push the images in OUT/images to a registry, with what is said of them (SBOMs,
provenance) as referrers. Credentials are those of docker, podman or a credential
helper: docker login REGISTRY. A company's CA is named by $SSL_CERT_FILE.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.registry == "" {
				return fmt.Errorf("say where to: --registry registry.example.com/gitbind")
			}
			return registry.Push(cmd.Context(), registry.Options{
				Layout: o.layout(), Registry: o.registry, PlainHTTP: plainHTTP,
				Tell: func(name string) { fmt.Fprintln(cmd.OutOrStdout(), name) },
			})
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "dist", "folder that has the images")
	cmd.Flags().StringVar(&o.registry, "registry", "", "registry, and a folder of it: registry.example.com/gitbind")
	cmd.Flags().BoolVar(&plainHTTP, "plain-http", false, "allow a registry without TLS on another machine")
	return cmd
}
