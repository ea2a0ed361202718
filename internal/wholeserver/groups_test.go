package wholeserver

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// groupEvents returns the received events about groups: each type with its number.
func (d *device) groupEvents() string {
	count := map[string]int{}
	for _, what := range d.all() {
		if len(what) > 6 && what[:6] == "group." {
			count[what[6:]]++
		}
	}
	return fmt.Sprint(count)
}

// The test calls every operation of groups over HTTP, on two nodes. Sockets on both nodes receive the events.
func TestAGroupFromItsMakingToItsEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 4)
		ctx := t.Context()
		ann, bob, eve, dan := c.people[0], c.people[1], c.people[2], c.nodes[0].SignUp(t, "UTC")
		hears := map[string]*device{"ann": c.connect(1, 0), "bob": c.connect(0, 1), "eve": c.connect(1, 2)}
		heard := func(name, want string) {
			t.Helper()
			eventually.Equal(t, name+" hears", "map["+want+"]", hears[name].groupEvents)
		}
		made, err := ann.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{id(bob)}})
		c.must(err)
		g := made.Group.ID
		if made.Me == nil || made.Me.Role != api.RoleOwner || made.Group.Members != 2 || made.Group.Joins != api.JoinInvited ||
			made.Group.Inviters != api.RoleMember {
			t.Errorf("made %+v %+v", made.Group, made.Me)
		}
		heard("bob", "changed:1 mine:1")
		link, err := bob.NewGroupLink(ctx, g, api.GroupLinkNew{Uses: 1})
		c.must(err)
		if link.Most != 1 || link.Expires.Sub(link.Created.Time) != 7*24*time.Hour {
			t.Errorf("a link %+v", link)
		}
		there := c.client(1, client.WithTokens(eve.Tokens()))
		seen, err := there.LookAtGroupLink(ctx, link.ID)
		if err != nil || seen.Me != nil || seen.Group.Name != "Rowing" {
			t.Errorf("a link leads to %+v, %v", seen, err)
		}
		joined, err := there.JoinByGroupLink(ctx, link.ID)
		if err != nil || joined.Me == nil || joined.Group.Members != 3 {
			t.Errorf("joined %+v, %v", joined, err)
		}
		heard("eve", "changed:1 mine:1")
		heard("ann", "changed:2 mine:1")
		if _, err := dan.JoinByGroupLink(ctx, link.ID); client.CodeOf(err) != "group.link_unknown" {
			t.Errorf("a link that is used up: %v", err)
		}
		link, err = ann.NewGroupLink(ctx, g, api.GroupLinkNew{Hours: 1})
		c.must(err)
		if links, err := ann.GroupLinks(ctx, g); err != nil || len(links.Links) != 1 {
			t.Errorf("links %+v, %v", links, err)
		}
		c.must(ann.RevokeGroupLink(ctx, g, link.ID))
		if _, err := ann.InviteToGroup(ctx, g, id(dan)); client.CodeOf(err) != "group.not_friends" {
			t.Errorf("a stranger is invited: %v", err)
		}
		if added, err := ann.InviteToGroup(ctx, g, id(c.people[3])); err != nil || len(added.Added) != 1 || added.Added[0].InvitedBy != id(ann) {
			t.Errorf("added %+v, %v", added, err)
		}
		admin, word, until := api.RoleAdmin, "Tomorrow", api.At(time.Now().Add(time.Hour))
		if m, err := ann.UpdateGroupMember(ctx, g, id(bob), api.GroupMemberUpdate{Role: &admin}); err != nil || m.Role != admin {
			t.Errorf("appointed %+v, %v", m, err)
		}
		if m, err := bob.UpdateGroupMember(ctx, g, id(eve), api.GroupMemberUpdate{MutedUntil: &until}); err != nil || m.MutedUntil == nil {
			t.Errorf("muted %+v, %v", m, err)
		}
		if _, err := eve.UpdateGroup(ctx, g, api.GroupUpdate{Announcement: &word}); client.CodeOf(err) != "group.not_allowed" {
			t.Errorf("a member announces: %v", err)
		}
		if got, err := bob.UpdateGroup(ctx, g, api.GroupUpdate{Announcement: &word}); err != nil || got.Group.Announced != 1 || got.Me.Seen != 1 {
			t.Errorf("announced %+v, %v", got, err)
		}
		one, nick := int64(1), "Evi"
		if got, err := eve.SetGroupSelf(ctx, g, api.GroupSelfUpdate{Seen: &one, Nickname: &nick}); err != nil || got.Me.Seen != 1 ||
			got.Me.Nickname != nick {
			t.Errorf("set %+v, %v", got, err)
		}
		if n, err := ann.GroupSeen(ctx, g); err != nil || n != (api.GroupSeen{Announced: 1, Seen: 2, Members: 4}) {
			t.Errorf("seen %+v, %v", n, err)
		}
		members, err := eve.GroupMembers(ctx, g, "", 2)
		if err != nil || len(members.Members) != 2 || members.Members[0].Role != api.RoleOwner || members.Members[1].User.ID != id(bob) ||
			members.Next == "" {
			t.Errorf("members %+v, %v", members, err)
		}
		rest, err := eve.GroupMembers(ctx, g, members.Next, 0)
		if err != nil || len(rest.Members) != 2 || !slices.ContainsFunc(rest.Members, func(m api.GroupMember) bool {
			return m.Nickname == nick
		}) || rest.Next != "" {
			t.Errorf("the others %+v, %v", rest, err)
		}
		asking := api.JoinAsking
		if _, err := ann.UpdateGroup(ctx, g, api.GroupUpdate{Joins: &asking}); err != nil {
			t.Error(err)
		}
		for _, answer := range []func(ctx context.Context, group, request string) error{bob.RefuseGroupRequest, bob.AcceptGroupRequest} {
			reply, err := dan.AskToJoinGroup(ctx, g, "Dan")
			if err != nil || reply.Joined || reply.Request == nil || reply.Request.State != api.RequestPending {
				t.Fatalf("asked %+v, %v", reply, err)
			}
			waiting, err := bob.GroupRequests(ctx, g, "", 0)
			if err != nil || len(waiting.Requests) != 1 || waiting.Requests[0].Answer != "Dan" {
				t.Errorf("requests %+v, %v", waiting, err)
			}
			c.must(answer(ctx, g, reply.Request.ID))
		}
		if err := dan.WithdrawGroupRequest(ctx, g); client.CodeOf(err) != "group.request_unknown" {
			t.Errorf("withdrawn: %v", err)
		}
		c.must(bob.RemoveFromGroup(ctx, g, id(dan)))
		c.must(bob.BanFromGroup(ctx, g, id(eve)))
		heard("eve", "changed:9 left:1 mine:2")
		if bans, err := bob.GroupBans(ctx, g, "", 0); err != nil || len(bans.Bans) != 1 || bans.Bans[0].User.ID != id(eve) ||
			bans.Bans[0].By != id(bob) {
			t.Errorf("bans %+v, %v", bans, err)
		}
		c.must(bob.UnbanFromGroup(ctx, g, id(eve)))
		if _, err := eve.Group(ctx, g); err != nil { // it accepts requests
			t.Error(err)
		}
		if got, err := eve.Groups(ctx); err != nil || len(got.Groups) != 0 {
			t.Errorf("groups %+v, %v", got, err)
		}
		changes, err := ann.GroupChanges(ctx, g, joined.Group.Version, 0)
		if err != nil || changes.More || changes.Reset || !slices.Contains(changes.Removed, id(eve)) || changes.Version != changes.Group.Version {
			t.Errorf("changes %+v, %v", changes, err)
		}
		if err := ann.LeaveGroup(ctx, g); client.CodeOf(err) != "group.owner" {
			t.Errorf("the owner leaves: %v", err)
		}
		if got, err := ann.TransferGroup(ctx, g, id(bob)); err != nil || got.Me.Role != api.RoleAdmin {
			t.Errorf("handed over: %+v, %v", got, err)
		}
		c.must(ann.LeaveGroup(ctx, g))
		heard("ann", "changed:12 left:1 mine:1 request_closed:2 requested:2")
		c.must(bob.DissolveGroup(ctx, g))
		heard("bob", "changed:13 left:1 mine:2 request_closed:2 requested:2")
		if _, err := bob.Group(ctx, g); client.CodeOf(err) != "group.unknown" {
			t.Errorf("a dissolved group: %v", err)
		}
		var list api.Groups
		if err := hears["bob"].Call(ctx, "groups.list", api.SocketCall{}, &list); err != nil || len(list.Groups) != 0 {
			t.Errorf("groups by socket %+v, %v", list, err)
		}
	})
}

// TestARequestToJoinLeavesTheNoticesOfWhoCannotAnswerIt tests that a notice of a request is removed if the request has
// ended or its reader is no longer an admin.
func TestARequestToJoinLeavesTheNoticesOfWhoCannotAnswerIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 4)
		ctx := t.Context()
		ann, bob, eve, dan := c.people[0], c.people[1], c.people[2], c.nodes[0].SignUp(t, "UTC")
		made, err := ann.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{id(bob), id(eve)}})
		c.must(err)
		g, admin, member, asking := made.Group.ID, api.RoleAdmin, api.RoleMember, api.JoinAsking
		_, err = ann.UpdateGroup(ctx, g, api.GroupUpdate{Joins: &asking})
		c.must(err)
		requested := func(of *client.Client) (n int) {
			list, err := of.Notices(ctx, "", 0)
			c.must(err)
			for _, notice := range list.Notices {
				if notice.Kind == api.NoticeGroupRequested {
					n++
				}
			}
			return n
		}
		wants := func(when string, of map[*client.Client]int) {
			t.Helper()
			for who, want := range of {
				if got := requested(who); got != want {
					t.Errorf("%s: %s has %d notices of requests, want %d", when, id(who), got, want)
				}
			}
		}
		for _, who := range []*client.Client{bob, eve} {
			_, err = ann.UpdateGroupMember(ctx, g, id(who), api.GroupMemberUpdate{Role: &admin})
			c.must(err)
		}
		reply, err := dan.AskToJoinGroup(ctx, g, "Dan")
		c.must(err)
		wants("asked", map[*client.Client]int{ann: 1, bob: 1, eve: 1})
		_, err = ann.UpdateGroupMember(ctx, g, id(bob), api.GroupMemberUpdate{Role: &member})
		c.must(err)
		c.must(ann.RemoveFromGroup(ctx, g, id(eve)))
		wants("one is no admin any more, one was removed", map[*client.Client]int{ann: 1, bob: 0, eve: 0})
		c.must(ann.RefuseGroupRequest(ctx, g, reply.Request.ID))
		wants("answered", map[*client.Client]int{ann: 0, bob: 0, eve: 0})
		_, err = ann.UpdateGroupMember(ctx, g, id(bob), api.GroupMemberUpdate{Role: &admin})
		c.must(err)
		_, err = dan.AskToJoinGroup(ctx, g, "Dan")
		c.must(err)
		wants("asked again", map[*client.Client]int{ann: 1, bob: 1})
		c.must(ann.DissolveGroup(ctx, g))
		wants("dissolved", map[*client.Client]int{ann: 0, bob: 0})
	})
}
