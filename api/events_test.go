package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
)

func TestEventData_HasEveryType(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Event") || len(spec.Values) != 1 {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				n++
				name, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				if api.EventData[name] == nil {
					t.Errorf("EventData has nothing for %s", name)
				}
			}
			return true
		})
	}
	if n == 0 || n != len(api.EventData) {
		t.Errorf("there are %d types of events, and EventData has %d", n, len(api.EventData))
	}
}

// withoutVersion maps the types of events that need no version to the reason.
var withoutVersion = map[string]string{
	api.EventAccountNotice:       "a fact",
	api.EventSessionOpened:       "the end of a session follows its beginning",
	api.EventSessionEnded:        "a session that ended does not return",
	api.EventFriendRequested:     "a request that closed stays closed",
	api.EventFriendRequestClosed: "a request that closed stays closed",
	api.EventGroupRequested:      "a request that closed stays closed",
	api.EventGroupRequestClosed:  "a request that closed stays closed",
	api.EventPresenceComplete:    "a hint",
	api.EventMessageHidden:       "a hidden message stays hidden",
	api.EventChatTyping:          "it ends by itself",
	api.EventRoomPlaylist:        "a hint: the client reads the playlist",
	api.EventRoomSaid:            "a fact with a number",
	api.EventRoomDanmaku:         "a fact",
	api.EventRoomDanmakuCleared:  "a fact",
	api.EventRoomViewers:         "the next one follows within seconds",
}

func TestEvents_NameTheirVersion(t *testing.T) {
	for name, data := range api.EventData {
		fields, reason := api.EventVersions[name], withoutVersion[name]
		if (fields == nil) == (reason == "") {
			t.Errorf("%s has the version %q and no version because %q; want one of them", name, fields, reason)
		}
		for _, path := range fields {
			at := reflect.TypeOf(data)
			for field := range strings.SplitSeq(path, ".") {
				at = fieldOf(at, field)
				if at == nil {
					t.Errorf("the data of %s has no field %s", name, path)
					break
				}
			}
		}
	}
	if len(api.EventVersions)+len(withoutVersion) != len(api.EventData) {
		t.Errorf("%d types with a version and %d without, want %d", len(api.EventVersions), len(withoutVersion), len(api.EventData))
	}
}

// fieldOf returns the type of a struct's field by its name in JSON, or nil.
func fieldOf(t reflect.Type, name string) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Type
		}
	}
	return nil
}
