package messaging

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// maxExportChats and maxExportMessages are the largest numbers of chats and messages in one part of an export. Each
// chat needs some statements, which must fit into the time of an operation.
const (
	maxExportChats    = 50
	maxExportMessages = 500
)

// Export returns one part of the user's stored chats: the chats in the order of their ids, each with the messages that
// the user sees. It returns ErrCursor if the cursor is invalid, or ErrStore.
func (s *Service) Export(ctx context.Context, user accounts.ID, cursor string) (_ api.ChatExport, err error) {
	defer errs.Wrap(&err, "messaging.Export %s", user)
	out := api.ChatExport{Chats: []api.Chat{}, Messages: []api.ExportedMessage{}}
	var from place
	if cursor == "" {
		set, err := s.Settings(ctx, user)
		if err != nil {
			return out, err
		}
		out.Settings = &set
	} else if from, err = parsePlace(cursor); err != nil {
		return out, err
	}
	views, err := s.sql.openViews(ctx, user)
	if err != nil {
		return out, asKind(ctx, err)
	}
	slices.SortFunc(views, func(a, b view) int { return a.id.Compare(b.id) })
	views = slices.DeleteFunc(views, func(v view) bool { return v.id.Compare(from.conv) < 0 })
	for i, v := range views {
		if i == maxExportChats {
			last := views[i-1]
			out.Next = last.id.String() + "." + strconv.FormatInt(last.seq, 10)
			return out, nil
		}
		after := v.me.cleared
		if v.id == from.conv {
			after = max(after, from.seq)
		} else if err := s.exportChat(ctx, v, &out); err != nil {
			return out, asKind(ctx, err)
		}
		if err := s.exportMessages(ctx, v, after, maxExportMessages-len(out.Messages), &out); err != nil {
			return out, asKind(ctx, err)
		}
		if n := len(out.Messages); n == maxExportMessages {
			out.Next = v.id.String() + "." + strconv.FormatInt(out.Messages[n-1].Seq, 10)
			return out, nil
		}
	}
	return out, nil
}

func parsePlace(s string) (p place, err error) {
	conv, seq, _ := strings.Cut(s, ".")
	if p.conv.UnmarshalText([]byte(conv)) != nil {
		return p, ErrCursor
	}
	p.seq, err = parseNumber(seq)
	return p, err
}

func (s *Service) exportChat(ctx context.Context, v view, out *api.ChatExport) error {
	list, err := s.sql.states(ctx, s.sql.db, []view{v}, nil)
	if err != nil {
		return err
	}
	chats, err := s.wire(ctx, v.me.user, list)
	out.Chats = append(out.Chats, chats...)
	return err
}

func (s *Service) exportMessages(ctx context.Context, v view, after int64, n int, out *api.ChatExport) error {
	found, err := s.sql.messages(ctx, s.sql.db, v.me.user, v.id, after, v.seq+1, false, n)
	if err != nil {
		return err
	}
	var edited []place
	for _, m := range found {
		if m.edited != 0 && m.recalled == 0 && m.from == v.me.user {
			edited = append(edited, place{m.conv, m.seq})
		}
	}
	earlier, err := s.sql.edits(ctx, edited)
	if err != nil {
		return err
	}
	for _, m := range found {
		out.Messages = append(out.Messages, api.ExportedMessage{Message: m.wire(v.me.user, v.name()), Earlier: earlier[place{m.conv, m.seq}]})
	}
	return nil
}
