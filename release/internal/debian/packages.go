package debian

// Release is the version of Debian that the packages are from.
const Release = "12"

// packages are what the embedded Git host runs: git, whose upload-pack, receive-pack,
// index-pack, repack and so on are one program; the libraries that it loads; sh, which
// sets the limits of a repack; and true, which git is told to run in the place of
// listing alternate refs. Hashes are those of the signed index of Debian.
//
// To renew them: `apt-get update && apt-cache show NAME:ARCH` says version and SHA256;
// `make test-images` tries them.
var packages = []Package{
	{
		Name: "git", Version: "1:2.39.5-0+deb12u3", files: []string{"usr/bin/git"},
		SHA256: map[string]string{
			"amd64": "637a85ddd6247fab13bdd0592f2f39aff04ce4dbf0655d3ab553ac359a38ce6f",
			"arm64": "435176549a9f5c8bbadaa126b64a036b38ea34ad9f3eb128dc40b8407a5b5620",
		},
	},
	{
		Name: "libc6", Version: "2.36-9+deb12u14", files: []string{"lib*/ld-linux-*.so.*", "lib/*/ld-linux-*.so.*", "lib/*/libc.so.6"},
		SHA256: map[string]string{
			"amd64": "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
			"arm64": "01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4",
		},
	},
	{
		Name: "libpcre2-8-0", Version: "10.42-1+deb12u2", files: []string{"usr/lib/*/libpcre2-8.so.0*"},
		SHA256: map[string]string{
			"amd64": "d2f7edfcc7689b9e0761c2742cc824ac86a20768bc5e8057818dc6875291fe76",
			"arm64": "8498d2c0bd6747dfc2fc6eec62774a86967079555f7043d5a7b78ee4efbbc0fb",
		},
	},
	{
		Name: "zlib1g", Version: "1:1.2.13.dfsg-1", files: []string{"lib/*/libz.so.1*"},
		SHA256: map[string]string{
			"amd64": "d7dd1d1411fedf27f5e27650a6eff20ef294077b568f4c8c5e51466dc7c08ce4",
			"arm64": "52b8b8a145bbe1956bba82034f77022cbef0c3d0885c9e32d9817a7932fe1913",
		},
	},
	{
		Name: "dash", Version: "0.5.12-2", files: []string{"bin/dash", "bin/sh"},
		SHA256: map[string]string{
			"amd64": "33ea40061da2f1a861ec46212b2b6a34f0776a049b1a3f0abce2fb8cb994258f",
			"arm64": "c1358e2a8054eb93efd460adf480224a16ea9e0b4d7b4c6cbcf8c8c91902a1d7",
		},
	},
	{
		Name: "coreutils", Version: "9.1-1", files: []string{"bin/true"},
		SHA256: map[string]string{
			"amd64": "61038f857e346e8500adf53a2a0a20859f4d3a3b51570cc876b153a2d51a3091",
			"arm64": "ec8f090a14c684879dce251254d8d9ed0876d4480f750d5807ef04e5435e1c4d",
		},
	},
}
