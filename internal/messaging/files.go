package messaging

import (
	"context"
	"slices"
	"strings"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/transfers"
)

// A message with a file has a row in message_files, from the transaction that stores the message to the one that
// removes its content. These rows are the only count of references to a file. The transaction that removes the last
// reference holds the lock of the file's row, so it sees that no other exists. A message that forwards another one
// shares its file.

// file returns the file of this server that a message has, if it has one.
func (s said) file() (transfers.ID, bool) {
	if s.Media == nil || s.Media.File == "" {
		return transfers.ID{}, false
	}
	id, err := ids.Parse[transfers.Transfer](s.Media.File)
	return id, err == nil
}

// takenFiles are the files of new messages, as package transfers describes them.
type takenFiles map[transfers.ID]transfers.File

// takeFiles locks the files of a batch's messages, and adds messages that may not have theirs to refused. The file must
// be an upload of the sender, or belong to the forwarded message, which still has it.
func (s *Service) takeFiles(ctx context.Context, tx *sqldb.Tx, batch []sending, refused map[sendingKey]error) (takenFiles, error) {
	var list []transfers.ID
	var sources []place
	for _, in := range batch {
		if id, has := in.said.file(); has {
			list = append(list, id)
			if in.source != nil {
				sources = append(sources, *in.source)
			}
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	found, err := s.files.Lock(ctx, tx, unique(list))
	if err != nil {
		return nil, err
	}
	have, err := s.sql.filesAt(ctx, tx, sources)
	if err != nil {
		return nil, err
	}
	for _, in := range batch {
		id, has := in.said.file()
		if !has || refused[in.key()] != nil {
			continue
		}
		f, there := found[id]
		switch {
		case in.source != nil && (!there || have[*in.source] != id):
			refused[in.key()] = ErrRecalled
		case in.source != nil:
		case !there || f.From != in.from:
			refused[in.key()] = ErrFile
		case in.said.Kind == api.MessageImage && f.Media.Width == 0:
			refused[in.key()] = ErrContent.On("body.media.file", "is not a PNG, JPEG, GIF or WebP picture; send it as a file")
		case in.said.Kind == api.MessageVoice && !strings.HasPrefix(f.Media.Type, "audio/"):
			refused[in.key()] = ErrContent.On("body.media.file", "is not a WAV, Ogg Opus, MP4 or WebM recording; send it as a file")
		}
	}
	return found, nil
}

// said returns the content of a message, with the server's data about its file.
func (t takenFiles) said(in sending) said {
	id, has := in.said.file()
	if !has || in.source != nil { // a forwarded message has this data already
		return in.said
	}
	m, sent := t[id].Media, in.said.Media
	m.Alt, m.Waveform = sent.Alt, sent.Waveform
	if m.Duration == 0 && in.said.Kind != api.MessageFile {
		m.Duration = sent.Duration
	}
	out := in.said
	out.Media = &m
	return out
}

// giveFiles stores the references of new messages to their files.
func (s *Service) giveFiles(ctx context.Context, tx *sqldb.Tx, fresh []message) error {
	var list []transfers.ID
	at := map[place]transfers.ID{}
	for _, m := range fresh {
		if id, has := m.said.file(); has {
			list, at[place{m.conv, m.seq}] = append(list, id), id
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.sql.insertFiles(ctx, tx, at); err != nil {
		return err
	}
	return s.files.Keep(ctx, tx, unique(list))
}

func unique(list []transfers.ID) []transfers.ID {
	return slices.Compact(slices.SortedFunc(slices.Values(list), transfers.ID.Compare))
}

// dropFiles removes the files of messages of a locked conversation; without numbers, of all messages.
func (s *Service) dropFiles(ctx context.Context, tx *sqldb.Tx, conv ConversationID, seqs ...int64) error {
	list, err := s.sql.filesOf(ctx, tx, conv, seqs)
	if err != nil || len(list) == 0 {
		return err
	}
	for some := range slices.Chunk(unique(list), atMost) {
		if _, err := s.files.Lock(ctx, tx, some); err != nil {
			return err
		}
		if err := s.sql.deleteFiles(ctx, tx, conv, seqs, some); err != nil {
			return err
		}
		had, err := s.sql.stillHad(ctx, tx, some)
		if err != nil {
			return err
		}
		if err := s.files.Release(ctx, tx, slices.DeleteFunc(some, func(id transfers.ID) bool { return slices.Contains(had, id) })); err != nil {
			return err
		}
	}
	return nil
}

// MayLink implements [transfers.Messages]. Between two users it refuses what [Service.FileLink] refuses.
func (s *Service) MayLink(ctx context.Context, user accounts.ID, file transfers.ID) (bool, error) {
	peers, err := s.sql.peersWith(ctx, user, file)
	if err != nil {
		return false, asKind(ctx, err)
	}
	apart, err := s.relations.Apart(ctx, user, peers)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(peers, func(peer accounts.ID) bool { return !apart[peer] }), nil
}

// FileLink returns the address of the file of a message that the user sees, or of its thumbnail. side is the
// thumbnail's size; 0 is the file itself. If one of two users blocks the other, no file is available. It returns
// ErrChat, ErrMessage, ErrRecalled, ErrNoFile, ErrRefused, ErrYouBlock, transfers.ErrGone, transfers.ErrNoSmall or
// ErrStore.
func (s *Service) FileLink(ctx context.Context, user accounts.ID, chat ChatRef, seq int64, side int) (_ api.FileLink, err error) {
	defer errs.Wrap(&err, "messaging.FileLink %s", user)
	_, m, err := s.messageOf(ctx, user, chat, seq)
	if err != nil {
		return api.FileLink{}, asKind(ctx, err)
	}
	id, has := m.said.file()
	switch {
	case m.recalled != 0:
		return api.FileLink{}, ErrRecalled
	case !has:
		return api.FileLink{}, ErrNoFile
	}
	if chat.direct() {
		mine, theirs, err := s.relations.Between(ctx, user, chat.peer)
		switch {
		case err != nil:
			return api.FileLink{}, err
		case mine.Blocked:
			return api.FileLink{}, ErrYouBlock
		case theirs.Blocked:
			return api.FileLink{}, ErrRefused
		}
	}
	return s.files.FileLink(ctx, user, id, side)
}
