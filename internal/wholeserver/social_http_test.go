package wholeserver

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

// A conversation is the log of requests and responses. Values that differ between runs are replaced by names.
type conversation struct {
	*testkit.Server
	t     *testing.T
	text  bytes.Buffer
	known []string
}

// call gives an identifier a name, so that the golden file shows which identifiers are equal.
func (c *conversation) call(value, name string) { c.known = append(c.known, value, name) }

var moments = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)

// say sends a request and logs both sides. It returns the response.
func (c *conversation) say(as *client.Client, method, path, body string) (answer map[string]any) {
	c.t.Helper()
	status, header, text := c.Call(c.t, as, method, path, body)
	_ = json.Unmarshal([]byte(text), &answer) // there may be none
	if r, ok := answer["request"].(map[string]any); ok {
		if id := r["id"].(string); !strings.Contains(strings.Join(c.known, " "), id) {
			c.call(id, fmt.Sprintf("REQUEST%d", strings.Count(strings.Join(c.known, " "), "REQUEST")+1))
		}
	}
	if next, ok := answer["next"].(string); ok {
		c.call(next, "CURSOR")
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, []byte(text), "", "  ") == nil {
		text = pretty.String()
	}
	fmt.Fprintf(&c.text, "> %s %s as %s %s\n< %d %s\n%s\n\n", method, path, as.Tokens().User.Name, body, status, header.Get("Content-Type"),
		strings.TrimSpace(text))
	return answer
}

func TestPeopleByHTTP(t *testing.T) {
	server := redistest.Server(t)
	s := testkit.Start(t, func(cfg *app.Config) {
		cfg.Redis = server.URL
		cfg.Social.Blocks = 1
	})
	c := &conversation{Server: s, t: t}
	ann, bob, eve, dan, shy := s.SignUp(t, "UTC"), s.SignUp(t, "UTC"), s.SignUp(t, "UTC"), s.SignUp(t, "UTC"), s.SignUp(t, "UTC")
	id := func(of *client.Client) string { return of.Tokens().User.ID }
	for name, who := range map[string]*client.Client{"ANN": ann, "BOB": bob, "EVE": eve, "DAN": dan, "SHY": shy} {
		c.call(id(who), name)
	}
	request := func(answer map[string]any) string {
		c.t.Helper()
		r, ok := answer["request"].(map[string]any)
		if !ok {
			c.t.Fatalf("no request in %v", answer)
		}
		return r["id"].(string)
	}

	// Invalid requests.
	c.say(ann, "POST", "/v1/friends/requests", `{}`)
	c.say(ann, "POST", "/v1/friends/requests", `{"user":"`+id(ann)+`"}`)
	c.say(ann, "POST", "/v1/friends/requests", `{"user":"nobody"}`)
	c.say(ann, "POST", "/v1/friends/requests", `{"user":"AAAAAAAAAAAA"}`)
	c.say(ann, "POST", "/v1/friends/requests", `{"card":"nonsense"}`)
	c.say(ann, "POST", "/v1/friends/requests", `{"user":"`+id(bob)+`","source":"Not This","remark":"`+strings.Repeat("x", 41)+`","more":1}`)

	// A request and its acceptance.
	r := request(c.say(ann, "POST", "/v1/friends/requests",
		`{"user":"`+id(bob)+`","message":"Hi Bob","source":"search","remark":"Bobby","tag":"school"}`))
	c.say(ann, "POST", "/v1/friends/requests", `{"user":"`+id(bob)+`"}`)
	c.say(bob, "GET", "/v1/friends/requests", "")
	c.say(bob, "GET", "/v1/friends/requests/unread", "")
	c.say(bob, "DELETE", "/v1/friends/requests/unread", "")
	c.say(bob, "GET", "/v1/friends/requests/unread", "")
	c.say(ann, "GET", "/v1/friends/requests?box=out", "")
	c.say(ann, "GET", "/v1/relations?ids="+id(bob), "")
	c.say(bob, "GET", "/v1/relations?ids="+id(ann), "")
	for _, who := range []*client.Client{eve, ann} { // requests of other users
		c.say(who, "POST", "/v1/friends/requests/"+r+"/accept", `{}`)
		c.say(who, "POST", "/v1/friends/requests/"+r+"/refuse", "")
	}
	c.say(eve, "DELETE", "/v1/friends/requests/"+r, "")
	c.say(bob, "DELETE", "/v1/friends/requests/"+r, "")
	c.say(bob, "DELETE", "/v1/friends/requests/x", "")
	c.say(bob, "POST", "/v1/friends/requests/"+r+"/accept", `{"remark":"Annie"}`)
	c.say(bob, "POST", "/v1/friends/requests/"+r+"/accept", "")
	c.say(ann, "POST", "/v1/friends/requests", `{"user":"`+id(bob)+`"}`)

	// Friends.
	c.say(ann, "GET", "/v1/friends", "")
	c.say(ann, "GET", "/v1/friends/"+id(bob), "")
	c.say(ann, "GET", "/v1/friends/"+id(eve), "")
	c.say(ann, "GET", "/v1/friends/x", "")
	c.say(ann, "PATCH", "/v1/friends/"+id(bob), `{"remark":"Bee","order":-5}`)
	c.say(ann, "PATCH", "/v1/friends/"+id(bob), `{"order":-1000001}`)
	c.say(ann, "PATCH", "/v1/friends/"+id(eve), `{"remark":"Eve"}`)
	c.say(bob, "GET", "/v1/friends/"+id(ann), "") // unchanged
	c.say(ann, "GET", "/v1/relations?ids="+strings.Join([]string{id(eve), id(bob), id(ann)}, ","), "")
	c.say(ann, "GET", "/v1/relations?ids="+id(eve)+",x", "")
	c.say(ann, "GET", "/v1/relations", "")
	c.say(ann, "GET", "/v1/relations?ids="+strings.Repeat(id(eve)+",", 100)+id(eve), "")

	// Both send requests; a card.
	c.say(eve, "POST", "/v1/friends/requests", `{"user":"`+id(ann)+`","message":"me too"}`)
	_, _, text := s.Call(t, eve, "POST", "/v1/me/card", "")
	var card struct{ Token string }
	must(t, json.Unmarshal([]byte(text), &card))
	c.call(card.Token, "CARD")
	c.say(ann, "POST", "/v1/friends/requests", `{"card":"`+card.Token+`","tag":"school"}`)
	c.say(dan, "POST", "/v1/friends/requests", `{"card":"`+card.Token+`"}`)
	next := c.say(ann, "GET", "/v1/friends?limit=1", "")["next"].(string)
	c.say(ann, "GET", "/v1/friends?limit=1&cursor="+next, "")
	c.say(ann, "GET", "/v1/friends?limit=1&cursor=x", "")
	c.say(ann, "GET", "/v1/friends?limit=0", "")
	c.say(ann, "GET", "/v1/friends?tag=nothing", "")
	c.say(ann, "GET", "/v1/friends/changes", "")
	c.say(ann, "GET", "/v1/friends/changes?since=2&limit=1", "")
	c.say(ann, "GET", "/v1/friends/changes?since=99", "")
	c.say(ann, "GET", "/v1/friends/changes?since=-1", "")

	// Blocks: a blocked user gets the same refusal as a user who may not send requests.
	c.say(ann, "PUT", "/v1/blocks/"+id(ann), "")
	c.say(ann, "PUT", "/v1/blocks/x", "")
	c.say(ann, "PUT", "/v1/blocks/"+id(eve), "")
	c.say(ann, "PUT", "/v1/blocks/"+id(eve), "")
	c.say(ann, "PUT", "/v1/blocks/"+id(dan), "")
	c.say(ann, "GET", "/v1/blocks", "")
	c.say(ann, "GET", "/v1/blocks?cursor=x", "")
	c.say(eve, "GET", "/v1/friends", "")
	c.say(eve, "GET", "/v1/relations?ids="+id(ann), "")
	c.say(eve, "POST", "/v1/friends/requests", `{"user":"`+id(ann)+`"}`)
	s.Call(t, shy, "PATCH", "/v1/me", `{"requests":false}`)
	c.say(eve, "POST", "/v1/friends/requests", `{"user":"`+id(shy)+`"}`)
	c.say(ann, "POST", "/v1/friends/requests", `{"user":"`+id(eve)+`"}`)
	c.say(ann, "GET", "/v1/friends/changes?since=3", "")
	c.say(eve, "DELETE", "/v1/blocks/"+id(ann), "")
	c.say(ann, "DELETE", "/v1/blocks/"+id(eve), "")
	c.say(ann, "DELETE", "/v1/blocks/"+id(eve), "")

	// Refused, withdrawn, ended.
	r = request(c.say(eve, "POST", "/v1/friends/requests", `{"user":"`+id(ann)+`"}`))
	c.say(ann, "POST", "/v1/friends/requests/"+r+"/refuse", "")
	c.say(eve, "DELETE", "/v1/friends/requests/"+r, "")
	r = request(c.say(eve, "POST", "/v1/friends/requests", `{"user":"`+id(ann)+`"}`))
	c.say(eve, "DELETE", "/v1/friends/requests/"+r, "")
	c.say(ann, "GET", "/v1/friends/requests?box=in", "")
	c.say(ann, "GET", "/v1/friends/requests?box=all", "")
	c.say(ann, "DELETE", "/v1/friends/"+id(bob), "")
	c.say(ann, "DELETE", "/v1/friends/"+id(bob), "")
	c.say(bob, "GET", "/v1/friends", "")

	got := moments.ReplaceAllString(strings.NewReplacer(c.known...).Replace(c.text.String()), `"TIME"`)
	const golden = "testdata/people.golden"
	if *update {
		must(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if got != string(want) {
		t.Errorf("the conversation differs from %s (run with -update and look at the difference); got:\n%s", golden, got)
	}
	refusals := regexp.MustCompile(`(?s)> POST /v1/friends/requests as User 3 \{"user":"(?:ANN|SHY)"\}\n(< 403 .*?)\n\n`).FindAllStringSubmatch(got, -1)
	if len(refusals) != 2 || refusals[0][1] != refusals[1][1] {
		t.Errorf("a block and a closed box are told apart: %q", refusals)
	}
}
