package messaging

import (
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/events"
	"github.com/stoa-dev/stoa/keyspace"
)

// Keys are the families of this domain.
var Keys = keyspace.New("messaging")

var messagesChannel = keyspace.DefChannel1[accounts.ID](Keys, "channel:message:{uid}", keyspace.MessagesOf[events.Event](),
	keyspace.Doc{Purpose: "what happens in a user's chats, see api/messaging.go", MaxBytes: 64 << 10})
