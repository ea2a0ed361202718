package rooms

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the key families of this package.
var Keys = keyspace.New("rooms")

const (
	// stateLife is the TTL of a register without changes; SQL has its checkpoint.
	stateLife = 24 * time.Hour
	// onlineLife is the TTL of the online key: a few times renewEvery.
	onlineLife = 3 * time.Minute
	// viewersLife is the TTL of a counted number of viewers.
	viewersLife = time.Minute
	// bufferingLife bounds the validity of a report of a waiting player.
	bufferingLife = 10 * time.Second
	// passwordLock is the time until a wrong password of a room no longer counts.
	passwordLock = time.Hour
	// maxHold bounds the wait of a room for one viewer's player.
	maxHold = time.Minute
)

var (
	stateKeys = keyspace.Def1[ID](Keys, "room:{{room}}:state",
		keyspace.HashOf("g, v: generation and version; i: item; p: ms; t: Unix ms of the servers; r: thousandths; s: paused; h: held"),
		keyspace.Expire(stateLife), keyspace.Doc{Purpose: "a room's register of playback; SQL has a checkpoint", Together: "room",
			MaxBytes: 1 << 10})
	bufferingKeys = keyspace.Def1[ID](Keys, "room:{{room}}:buffering",
		keyspace.ZSetOf("viewers by the Unix ms, of the servers, until when their players wait for data"),
		keyspace.Expire(maxHold+bufferingLife), keyspace.Doc{Purpose: "viewers whose players wait for data", Together: "room", MaxBytes: 1 << 20})
	holdingKeys = keyspace.Def1[ID](Keys, "room:{{room}}:holding",
		keyspace.ZSetOf("viewers by the Unix ms, of the servers, until when the room waits for them"),
		keyspace.Expire(maxHold+bufferingLife), keyspace.Doc{Purpose: "viewers that a room waits for, among those whose players wait for data",
			Together: "room", MaxBytes: 1 << 20})
	onlineKeys = keyspace.Def1[ID](Keys, "room:{{room}}:online", keyspace.ZSetOf("viewer.node by the Unix ms of the last activity"),
		keyspace.Expire(onlineLife), keyspace.Doc{Purpose: "viewers of a room and their nodes; an entry is valid while its node is alive",
			Together: "room", MaxBytes: 4 << 20})
	viewersKeys = keyspace.Def1[ID](Keys, "room:{{room}}:viewers", keyspace.BytesOf("how many, and the node that counted them"),
		keyspace.Expire(viewersLife), keyspace.Doc{Purpose: "number of viewers of a room", Together: "room", MaxBytes: 32})

	guestRateKeys = keyspace.Def2[ID, keyspace.Hashed](Keys, "limit:room_guests:{room}:{from}", keyspace.CounterKind(),
		keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "guests who joined a room, of all, of an IPv6 /56 or an IPv4 address, and of a network (IPv6 /48, IPv4 /24)",
			MaxBytes: 8})
	passwordFailKeys = keyspace.Def2[ID, keyspace.Hashed](Keys, "limit:room_password_fail:{room}:{from}", keyspace.CounterKind(),
		keyspace.Expire(passwordLock),
		keyspace.Doc{Purpose: "wrong passwords of a room, of all and of a network (IPv6 /48, IPv4 /24)", MaxBytes: 8})

	roomKeys = keyspace.Def1[ID](Keys, "cache:room:{room}", keyspace.CachedOf[Room](),
		keyspace.Expire(10*time.Minute).Jitter(time.Minute).Negative(time.Minute),
		keyspace.Doc{Purpose: "a room and its settings", InvalidatedBy: []string{SettingsChanged.Name(), RoomUpdated.Name(), RoomDeleted.Name()},
			MaxBytes: 32 << 10, Version: 2})
	checkpointKeys = keyspace.Def1[ID](Keys, "cache:room_state:{room}", keyspace.CachedOf[checkpoint](),
		keyspace.Expire(5*time.Minute), keyspace.Doc{Purpose: "a room's checkpoint, for reads while the register is unavailable",
			InvalidatedBy: []string{RoomDeleted.Name()}, MaxBytes: 1 << 10})
	memberKeys = keyspace.Def2[ID, ParticipantID](Keys, "cache:member:{room}:{uid}", keyspace.CachedOf[Member](),
		keyspace.Expire(10*time.Minute).Jitter(time.Minute).Negative(time.Minute),
		keyspace.Doc{Purpose: "a participant's membership of a room", InvalidatedBy: []string{PermissionsChanged.Name(), MemberKicked.Name()},
			MaxBytes: 1 << 10})
	playlistKeys = keyspace.Def1[ID](Keys, "cache:playlist:{room}", keyspace.CachedOf[[]Item](),
		keyspace.Expire(10*time.Minute).Jitter(time.Minute),
		keyspace.Doc{Purpose: "a room's playlist", InvalidatedBy: []string{PlaylistChanged.Name(), RoomDeleted.Name()}, MaxBytes: 1 << 20,
			Version: 2})
	sourceKeys = keyspace.Def1[ItemID](Keys, "playback:{key}", keyspace.CachedOf[Source](),
		keyspace.UpTo(time.Hour).Negative(10*time.Second),
		keyspace.Doc{Purpose: "the source of an item, while it is valid", MaxBytes: 4 << 10})
)
