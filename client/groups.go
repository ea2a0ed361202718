package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stoa-dev/stoa/api"
)

// inGroup returns the path of a resource of a group.
func inGroup(group string, parts ...string) string {
	path := "/v1/groups/" + url.PathEscape(group)
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// CreateGroup creates a group of the caller and the caller's friends.
func (c *Client) CreateGroup(ctx context.Context, in api.GroupNew) (out api.GroupMembership, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/groups", in: in, out: &out})
	return out, err
}

// Groups returns all groups of the caller.
func (c *Client) Groups(ctx context.Context) (out api.Groups, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/groups", out: &out})
	return out, err
}

// Group returns a group and the caller's membership.
func (c *Client) Group(ctx context.Context, group string) (out api.GroupMembership, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inGroup(group), out: &out})
	return out, err
}

// UpdateGroup changes a group.
func (c *Client) UpdateGroup(ctx context.Context, group string, in api.GroupUpdate) (out api.GroupMembership, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: inGroup(group), in: in, out: &out})
	return out, err
}

// DissolveGroup deletes a group for all members.
func (c *Client) DissolveGroup(ctx context.Context, group string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inGroup(group)})
}

// TransferGroup makes another member the owner of a group.
func (c *Client) TransferGroup(ctx context.Context, group, user string) (out api.GroupMembership, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: inGroup(group, "owner"), in: api.GroupOwner{User: user}, out: &out})
	return out, err
}

// SetGroupSelf changes the caller's own membership.
func (c *Client) SetGroupSelf(ctx context.Context, group string, in api.GroupSelfUpdate) (out api.GroupMembership, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: inGroup(group, "me"), in: in, out: &out})
	return out, err
}

// LeaveGroup ends the caller's membership.
func (c *Client) LeaveGroup(ctx context.Context, group string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inGroup(group, "me")})
}

// GroupSeen returns the number of members who have seen the newest announcement.
func (c *Client) GroupSeen(ctx context.Context, group string) (out api.GroupSeen, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inGroup(group, "seen"), out: &out})
	return out, err
}

// GroupMembers returns a page of a group's members after the cursor. With a zero limit the server chooses the limit.
func (c *Client) GroupMembers(ctx context.Context, group, cursor string, limit int) (out api.GroupMembers, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inGroup(group, "members"), query: pageOf(cursor, limit), out: &out})
	return out, err
}

// GroupChanges returns the changes of a group since a version. With a zero limit the server chooses the limit.
func (c *Client) GroupChanges(ctx context.Context, group string, since int64, limit int) (out api.GroupChanges, err error) {
	query := pageOf("", limit)
	query.Set("since", strconv.FormatInt(since, 10))
	err = c.do(ctx, call{method: http.MethodGet, path: inGroup(group, "changes"), query: query, out: &out})
	return out, err
}

// InviteToGroup adds the caller's friends to a group.
func (c *Client) InviteToGroup(ctx context.Context, group string, users ...string) (out api.GroupAdded, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inGroup(group, "members"), in: api.GroupInvite{Users: users}, out: &out})
	return out, err
}

// UpdateGroupMember changes the role of another member, or mutes that member.
func (c *Client) UpdateGroupMember(ctx context.Context, group, user string, in api.GroupMemberUpdate) (out api.GroupMember, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: inGroup(group, "members", user), in: in, out: &out})
	return out, err
}

// RemoveFromGroup removes a member from a group.
func (c *Client) RemoveFromGroup(ctx context.Context, group, user string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inGroup(group, "members", user)})
}

// GroupBans returns a page of the banned users of a group after the cursor. With a zero limit the server chooses the
// limit.
func (c *Client) GroupBans(ctx context.Context, group, cursor string, limit int) (out api.GroupBans, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inGroup(group, "bans"), query: pageOf(cursor, limit), out: &out})
	return out, err
}

// BanFromGroup bans a user from a group.
func (c *Client) BanFromGroup(ctx context.Context, group, user string) error {
	return c.do(ctx, call{method: http.MethodPut, path: inGroup(group, "bans", user)})
}

// UnbanFromGroup lifts a ban.
func (c *Client) UnbanFromGroup(ctx context.Context, group, user string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inGroup(group, "bans", user)})
}

// NewGroupLink creates a link that lets users join a group.
func (c *Client) NewGroupLink(ctx context.Context, group string, in api.GroupLinkNew) (out api.GroupLink, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inGroup(group, "links"), in: in, out: &out})
	return out, err
}

// GroupLinks returns the invite links of a group that the caller may see.
func (c *Client) GroupLinks(ctx context.Context, group string) (out api.GroupLinks, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inGroup(group, "links"), out: &out})
	return out, err
}

// RevokeGroupLink revokes a link.
func (c *Client) RevokeGroupLink(ctx context.Context, group, link string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inGroup(group, "links", link)})
}

// LookAtGroupLink returns the group of a link.
func (c *Client) LookAtGroupLink(ctx context.Context, link string) (out api.GroupMembership, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/group-links/" + url.PathEscape(link), out: &out})
	return out, err
}

// JoinByGroupLink joins the group of a link.
func (c *Client) JoinByGroupLink(ctx context.Context, link string) (out api.GroupMembership, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/group-links/" + url.PathEscape(link), out: &out})
	return out, err
}

// AskByGroupCard joins the group of a card. If the group needs a request, it sends one with an answer to its question,
// and the result has this request.
func (c *Client) AskByGroupCard(ctx context.Context, token, answer string) (out api.GroupMembership, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/group-links/" + url.PathEscape(token), in: api.GroupRequestNew{Answer: answer},
		out: &out})
	return out, err
}

// DrawGroupCard returns the card that others scan to find a group. It is the same card until it expires.
func (c *Client) DrawGroupCard(ctx context.Context, group string) (out api.Card, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inGroup(group, "card"), out: &out})
	return out, err
}

// GroupCard returns the group's current card. It fails with "card.not_drawn" if there is none.
func (c *Client) GroupCard(ctx context.Context, group string) (out api.Card, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inGroup(group, "card"), out: &out})
	return out, err
}

// GroupCardPNG returns a group's card as a QR code of 128 to 1024 pixels. With a zero size the server chooses the size.
func (c *Client) GroupCardPNG(ctx context.Context, group string, size int) ([]byte, error) {
	return c.cardPNG(ctx, inGroup(group, "card.png"), size)
}

// GroupCardSVG returns a group's card as a QR code.
func (c *Client) GroupCardSVG(ctx context.Context, group string) ([]byte, error) {
	var out raw
	err := c.do(ctx, call{method: http.MethodGet, path: inGroup(group, "card.svg"), out: &out})
	return out, err
}

// SetGroupPicture sets a group's picture from a PNG, JPEG, GIF or WebP image.
func (c *Client) SetGroupPicture(ctx context.Context, group string, image []byte) (out api.GroupMembership, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: inGroup(group, "picture"), in: raw(image), out: &out})
	return out, err
}

// RemoveGroupPicture removes a group's picture.
func (c *Client) RemoveGroupPicture(ctx context.Context, group string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inGroup(group, "picture")})
}

// GroupPicture returns one size of a group's picture.
func (c *Client) GroupPicture(ctx context.Context, picture string, size int) (image []byte, err error) {
	var out raw
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/group-pictures/" + url.PathEscape(picture) + "/" + strconv.Itoa(size), open: true,
		out: &out})
	return out, err
}

// SearchGroupMembers returns members whose nickname, name, or remark by the caller has each word of q. A page may be
// short or empty although there is a Next.
func (c *Client) SearchGroupMembers(ctx context.Context, group, q, cursor string, limit int) (out api.GroupMembers, err error) {
	query := pageOf(cursor, limit)
	query.Set("q", q)
	err = c.do(ctx, call{method: http.MethodGet, path: inGroup(group, "members"), query: query, out: &out})
	return out, err
}

// AskToJoinGroup sends a request to join a group. An open group adds the caller at once.
func (c *Client) AskToJoinGroup(ctx context.Context, group, answer string) (out api.GroupRequestReply, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inGroup(group, "requests"), in: api.GroupRequestNew{Answer: answer}, out: &out})
	return out, err
}

// GroupRequests returns a page of a group's pending requests to join after the cursor, oldest first. With a zero limit
// the server chooses the limit.
func (c *Client) GroupRequests(ctx context.Context, group, cursor string, limit int) (out api.GroupRequests, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inGroup(group, "requests"), query: pageOf(cursor, limit), out: &out})
	return out, err
}

// WithdrawGroupRequest withdraws the caller's request to join a group.
func (c *Client) WithdrawGroupRequest(ctx context.Context, group string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inGroup(group, "requests", "mine")})
}

// AcceptGroupRequest accepts a request to join a group.
func (c *Client) AcceptGroupRequest(ctx context.Context, group, request string) error {
	return c.do(ctx, call{method: http.MethodPost, path: inGroup(group, "requests", request, "accept")})
}

// RefuseGroupRequest refuses a request to join a group.
func (c *Client) RefuseGroupRequest(ctx context.Context, group, request string) error {
	return c.do(ctx, call{method: http.MethodPost, path: inGroup(group, "requests", request, "refuse")})
}
