package obs

import (
	"runtime"
	"runtime/debug"
)

// BuildInfo is which build this is, as far as the binary knows.
type BuildInfo struct {
	Version  string `json:"version"`            // of the module: "v1.2.0"; "devel" when built from a working tree
	Commit   string `json:"commit,omitempty"`   // full hash
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // built with changes that are in no commit
	Go       string `json:"go"`                 // "go1.26.0"
	Platform string `json:"platform"`           // "linux/amd64"
}

// Build reads what the go command noted in the binary.
func Build() BuildInfo {
	b := BuildInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
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
	return b
}
