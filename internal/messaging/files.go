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
func (s messageBody) file() (transfers.ID, bool) {
	if s.Media == nil || s.Media.File == "" {
		return transfers.ID{}, false
	}
	id, err := ids.Parse[transfers.Transfer](s.Media.File)
	return id, err == nil
}

// lockedFiles are the files of new messages, as package transfers describes them.
type lockedFiles map[transfers.ID]transfers.File

// lockFiles locks the files of a batch's messages, and adds messages that may not have theirs to refused. The file must
// be an upload of the sender, or belong to the forwarded message, which still has it.
func (s *Service) lockFiles(ctx context.Context, tx *sqldb.Tx, batch []sending, refused map[sendingKey]error) (lockedFiles, error) {
	var list []transfers.ID
	var sources []place
	for _, in := range batch {
		if id, has := in.body.file(); has {
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
	references, err := s.sql.filesAt(ctx, tx, sources)
	if err != nil {
		return nil, err
	}
	for _, in := range batch {
		id, has := in.body.file()
		if !has || refused[in.key()] != nil {
			continue
		}
		f, ok := found[id]
		switch {
		case in.source != nil && (!ok || references[*in.source] != id):
			refused[in.key()] = ErrRecalled
		case in.source != nil:
		case !ok || f.From != in.from:
			refused[in.key()] = ErrFile
		case in.body.Kind == api.MessageImage && f.Media.Width == 0:
			refused[in.key()] = ErrContent.On("body.media.file", "is not a PNG, JPEG, GIF or WebP picture; send it as a file")
		case in.body.Kind == api.MessageVoice && !strings.HasPrefix(f.Media.Type, "audio/"):
			refused[in.key()] = ErrContent.On("body.media.file", "is not a WAV, Ogg Opus, MP4 or WebM recording; send it as a file")
		}
	}
	return found, nil
}

// body returns the content of a message, with the server's data about its file.
func (t lockedFiles) body(in sending) messageBody {
	id, has := in.body.file()
	if !has || in.source != nil { // a forwarded message has this data already
		return in.body
	}
	m, sent := t[id].Media, in.body.Media
	m.Alt, m.Waveform = sent.Alt, sent.Waveform
	if m.Duration == 0 && in.body.Kind != api.MessageFile {
		m.Duration = sent.Duration
	}
	out := in.body
	out.Media = &m
	return out
}

// addFileReferences stores the references of new messages to their files.
func (s *Service) addFileReferences(ctx context.Context, tx *sqldb.Tx, fresh []message) error {
	var list []transfers.ID
	at := map[place]transfers.ID{}
	for _, m := range fresh {
		if id, has := m.body.file(); has {
			list, at[place{m.conv, m.seq}] = append(list, id), id
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.sql.insertFiles(ctx, tx, at); err != nil {
		return err
	}
	return s.files.MakePermanent(ctx, tx, unique(list))
}

func unique(list []transfers.ID) []transfers.ID {
	return slices.Compact(slices.SortedFunc(slices.Values(list), transfers.ID.Compare))
}

// removeFileReferences removes the files of messages of a locked conversation; without numbers, of all messages.
func (s *Service) removeFileReferences(ctx context.Context, tx *sqldb.Tx, conv ConversationID, seqs ...int64) error {
	list, err := s.sql.filesOf(ctx, tx, conv, seqs)
	if err != nil || len(list) == 0 {
		return err
	}
	for chunk := range slices.Chunk(unique(list), maxConditions) {
		if _, err := s.files.Lock(ctx, tx, chunk); err != nil {
			return err
		}
		if err := s.sql.deleteFiles(ctx, tx, conv, seqs, chunk); err != nil {
			return err
		}
		used, err := s.sql.filesInUse(ctx, tx, chunk)
		if err != nil {
			return err
		}
		if err := s.files.Release(ctx, tx, slices.DeleteFunc(chunk, func(id transfers.ID) bool {
			return slices.Contains(used, id)
		})); err != nil {
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
	id, has := m.body.file()
	switch {
	case m.recalled != 0:
		return api.FileLink{}, ErrRecalled
	case !has:
		return api.FileLink{}, ErrNoFile
	}
	if chat.direct() {
		if err := s.relations.NotApart(ctx, user, chat.peer, contactRefusals); err != nil {
			return api.FileLink{}, err
		}
	}
	return s.files.FileLink(ctx, user, id, side)
}
