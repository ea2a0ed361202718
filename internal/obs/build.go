package obs

import (
	"runtime"
	"runtime/debug"
)

// BuildInfo describes the build of this binary.
type BuildInfo struct {
	// "v1.2.0"; from a checkout "v0.0.0-20260301…" or "devel-0123456789ab", with "+dirty" if modified; "devel" without version control
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // full hash
	Time     string `json:"time,omitempty"`     // time of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // built with uncommitted changes
	Go       string `json:"go"`                 // "go1.26.0"
	Platform string `json:"platform"`           // "linux/amd64"
}

// Build returns the build information that the go command recorded in the binary.
func Build() BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info)
}

// buildOf uses the revision as the version of a build without a module version, so that two builds from source
// differ.
func buildOf(info *debug.BuildInfo) BuildInfo {
	b := BuildInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	switch v := info.Main.Version; {
	case v != "" && v != "(devel)":
		b.Version = v
	case b.Commit != "":
		b.Version += "-" + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			b.Version += "+dirty"
		}
	}
	return b
}
