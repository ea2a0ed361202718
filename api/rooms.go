package api

// RoleGuest is the role of somebody who is in a room without an account; the others are those of groups.
const RoleGuest = "guest"

// What members of a room may do, by role or one by one.
const (
	MayChat     = "chat"
	MayDanmaku  = "danmaku"
	MayControl  = "control"  // play, pause, seek, change the rate, choose what is on
	MayPlaylist = "playlist" // add, order and remove
	MayInvite   = "invite"   // make links
	MayModerate = "moderate" // kick, ban, mute, clear danmaku
	MaySettings = "settings" // the room's settings, and what members may do
)

// Room is a room in which people watch something together.
type Room struct {
	ID        string   `json:"id" example:"V1StGXR8_Z5j"`
	Name      string   `json:"name" example:"Film night"`
	Access    string   `json:"access" enum:"invited,open" doc:"who comes in: only by links, or everybody"`
	Password  bool     `json:"password" doc:"an open room that asks for one"`
	Listed    bool     `json:"listed" doc:"it is in the public list while it is open"`
	Guests    bool     `json:"guests" doc:"people without an account may come in, too"`
	MemberMay []string `json:"member_may" example:"chat" doc:"what members may do: chat, danmaku, control, playlist, invite, moderate, settings"`
	GuestMay  []string `json:"guest_may" example:"chat" doc:"what guests may do: chat, danmaku"`
	Hold      bool     `json:"hold" doc:"all wait while a viewer's player waits for data"`
	Drift     int      `json:"drift" doc:"ms by which a player may be off before it drifts back by its rate" example:"40"`
	Jump      int      `json:"jump" doc:"ms by which a player may be off before it seeks" example:"1000"`
	Loop      string   `json:"loop" enum:"off,item,list" doc:"what follows the end of an item"`
	Words     []string `json:"words,omitempty" doc:"texts that have one of these are refused; shown to who may change settings, and not in events"`
	Viewers   int      `json:"viewers" doc:"who are on line in it, as of a few seconds ago"`
	Created   Time     `json:"created"`
	Version   int64    `json:"version" doc:"grows with each change of the settings and of the members: ignore room.changed with a lower version"`
}

// RoomSelf is the caller's own place in a room.
type RoomSelf struct {
	ID         string   `json:"id" example:"V1StGXR8_Z5j" doc:"the user's id, or the guest's"`
	Role       string   `json:"role" enum:"guest,member,admin,owner"`
	May        []string `json:"may" example:"chat" doc:"what the caller may do by now"`
	MutedUntil *Time    `json:"muted_until,omitempty"`
}

// RoomMember is someone in a room.
type RoomMember struct {
	User       Profile  `json:"user" doc:"of a guest: the id and the name alone"`
	Role       string   `json:"role" enum:"guest,member,admin,owner"`
	May        []string `json:"may" example:"chat"`
	MutedUntil *Time    `json:"muted_until,omitempty"`
	Joined     Time     `json:"joined"`
	Version    int64    `json:"version,omitempty" doc:"in events: of the room; ignore an event of this member with a lower version than the last one"`
}

// RoomPlace is a room and the caller's place in it; without me, the caller is not in it.
type RoomPlace struct {
	Room Room      `json:"room"`
	Me   *RoomSelf `json:"me,omitempty"`
}

// RoomNew makes a room: POST /v1/rooms.
type RoomNew struct {
	Name     string  `json:"name" minLength:"1" maxLength:"60" example:"Film night"`
	Access   *string `json:"access,omitempty" enum:"invited,open" doc:"invited, unless it is given"`
	Password *string `json:"password,omitempty" maxLength:"128" doc:"for an open room"`
	Listed   *bool   `json:"listed,omitempty"`
	Guests   *bool   `json:"guests,omitempty"`
}

// RoomUpdate changes what is present and leaves the rest: PATCH /v1/rooms/{room}.
type RoomUpdate struct {
	Name      *string   `json:"name,omitempty" minLength:"1" maxLength:"60" example:"Film night"`
	Access    *string   `json:"access,omitempty" enum:"invited,open"`
	Password  *string   `json:"password,omitempty" maxLength:"128" doc:"empty: none is asked for"`
	Listed    *bool     `json:"listed,omitempty"`
	Guests    *bool     `json:"guests,omitempty"`
	MemberMay *[]string `json:"member_may,omitempty" maxItems:"7" example:"chat"`
	GuestMay  *[]string `json:"guest_may,omitempty" maxItems:"2" example:"chat"`
	Hold      *bool     `json:"hold,omitempty"`
	Drift     *int      `json:"drift,omitempty" minimum:"10" maximum:"1000"`
	Jump      *int      `json:"jump,omitempty" minimum:"200" maximum:"10000"`
	Loop      *string   `json:"loop,omitempty" enum:"off,item,list"`
	Words     *[]string `json:"words,omitempty" maxItems:"200" doc:"each 1 to 40 characters"`
}

// Rooms is a page of rooms.
type Rooms struct {
	Rooms []Room `json:"rooms"`
	Next  string `json:"next,omitempty" doc:"cursor of the page after; none at the end"`
}

// MyRooms are the rooms in which the caller is, the one joined last first.
type MyRooms struct {
	Rooms []RoomPlace `json:"rooms"`
	Next  string      `json:"next,omitempty" doc:"cursor of the page after; none at the end"`
}

// RoomJoin comes into a room: POST /v1/rooms/{room}/join.
type RoomJoin struct {
	Password string `json:"password,omitempty" maxLength:"128"`
	Link     string `json:"link,omitempty" maxLength:"64" doc:"a link's id, in place of a password"`
}

// RoomGuestNew comes into a room without an account: POST /v1/rooms/{room}/guests.
type RoomGuestNew struct {
	Name     string `json:"name" minLength:"1" maxLength:"40" example:"Visitor"`
	Password string `json:"password,omitempty" maxLength:"128"`
	Link     string `json:"link,omitempty" maxLength:"64"`
}

// RoomGuest is a guest's token, and what it is good for.
type RoomGuest struct {
	Token   string `json:"token" example:"stoa_guest_Hk3u7sPq2ZxB.V1StGXR8_Z5j.Xq3vT8mZr1Lw5yKp9NbHc2" doc:"a bearer token for operations of this room, and for the socket"`
	Expires Time   `json:"expires"`
	RoomPlace
}

// RoomMembers is a page of a room's members, the higher roles first.
type RoomMembers struct {
	Members []RoomMember `json:"members"`
	Next    string       `json:"next,omitempty"`
}

// RoomMemberUpdate changes what is present: PATCH /v1/rooms/{room}/members/{user}.
type RoomMemberUpdate struct {
	Role       *string   `json:"role,omitempty" enum:"member,admin" doc:"the owner's to change"`
	May        *[]string `json:"may,omitempty" maxItems:"7" example:"chat" doc:"in place of what the role allows: of a guest chat and danmaku alone, not of an admin"`
	MutedUntil *Time     `json:"muted_until,omitempty" doc:"a time that has passed lets them write again"`
}

// RoomOwner hands a room over: PUT /v1/rooms/{room}/owner.
type RoomOwner struct {
	User string `json:"user" example:"V1StGXR8_Z5j"`
}

// RoomBan keeps a user out of a room.
type RoomBan struct {
	User Profile `json:"user"`
	By   string  `json:"by" example:"V1StGXR8_Z5j"`
	At   Time    `json:"at"`
}

// RoomBans is a page of bans, the last one first.
type RoomBans struct {
	Bans []RoomBan `json:"bans"`
	Next string    `json:"next,omitempty"`
}

// RoomLinkNew makes a link: POST /v1/rooms/{room}/links.
type RoomLinkNew struct {
	Hours int `json:"hours,omitempty" minimum:"1" maximum:"8760" doc:"how long it lets people in; 168 unless it is given"`
	Uses  int `json:"uses,omitempty" minimum:"0" maximum:"100000" doc:"how many; 0: as many as come"`
}

// RoomLink lets people into a room.
type RoomLink struct {
	ID      string `json:"id" example:"V1StGXR8_Z5j"`
	Room    string `json:"room" example:"Hk3u7sPq2ZxB"`
	By      string `json:"by" example:"V1StGXR8_Z5j"`
	Created Time   `json:"created"`
	Expires Time   `json:"expires"`
	Uses    int    `json:"uses"`
	Most    int    `json:"most,omitempty"`
}

// RoomLinks are the links that let people in.
type RoomLinks struct {
	Links []RoomLink `json:"links"`
}

// What commands do to a room's playback.
const (
	PlaybackPlay  = "play"
	PlaybackPause = "pause"
	PlaybackSeek  = "seek"
	PlaybackRate  = "rate"
	PlaybackLoad  = "load"
)

// Playback is a room's register: where the medium was at one moment of the servers' clock, and how it
// goes on. Now it is at position + (clock − server_time) × rate, unless it is paused.
type Playback struct {
	Room       string  `json:"room" example:"V1StGXR8_Z5j"`
	Generation int64   `json:"generation" doc:"of two states the one with the higher generation is newer, then the one with the higher version"`
	Version    int64   `json:"version"`
	Item       string  `json:"item,omitempty" example:"c0aT9vWm4LyR" doc:"of the playlist; none: nothing is on"`
	Position   int64   `json:"position" doc:"ms from the beginning of the item, at server_time"`
	ServerTime int64   `json:"server_time" doc:"Unix ms of the clock of rooms.clock"`
	Rate       float64 `json:"rate" example:"1"`
	Paused     bool    `json:"paused"`
	Held       bool    `json:"held,omitempty" doc:"it is paused because a viewer's player waits for data, and goes on by itself"`
}

// PlaybackCommand changes what is on: POST /v1/rooms/{room}/playback. It is refused unless generation and
// version are the register's, so that nobody undoes what they have not seen.
type PlaybackCommand struct {
	Generation int64   `json:"generation" minimum:"0"`
	Version    int64   `json:"version" minimum:"0"`
	Do         string  `json:"do" enum:"play,pause,seek,rate,load"`
	Position   int64   `json:"position,omitempty" minimum:"0" maximum:"2592000000" doc:"ms, of seek and load"`
	Rate       float64 `json:"rate,omitempty" minimum:"0" maximum:"4" doc:"of rate, 0.25 to 4"`
	Item       string  `json:"item,omitempty" example:"c0aT9vWm4LyR" maxLength:"12" doc:"of load; none ends what is on"`
}

// PlaybackBuffering tells that the caller's player waits for data, or does not any more:
// POST /v1/rooms/{room}/playback/buffering. A report counts for ten seconds, while its sender has the room's channel; clients repeat it every five.
type PlaybackBuffering struct {
	Buffering bool `json:"buffering"`
}

// PlaybackEnded tells that an item has come to its end: POST /v1/rooms/{room}/playback/ended. Of all who say
// so the first one has the next item follow.
type PlaybackEnded struct {
	Generation int64 `json:"generation" minimum:"0"`
	Version    int64 `json:"version" minimum:"0"`
}

// RoomClock is the servers' clock: GET /v1/rooms/clock. A client asks several times and takes the middle of the
// offsets that came with the shortest round trips.
type RoomClock struct {
	Time int64 `json:"time" doc:"Unix ms"`
}

// Kinds of what is on a playlist.
const (
	ItemURL  = "url"  // a file of which browsers play parts
	ItemHLS  = "hls"  // a playlist of HTTP live streaming
	ItemFile = "file" // a transfer to or from the user who adds it
	ItemLive = "live" // a live stream
)

// RoomSample is the path of a video of one minute that every server has. As the source of an item of kind url it stands
// for itself: clients fetch it from the server.
const RoomSample = "/sample.webm"

// RoomItem is something on a playlist.
type RoomItem struct {
	ID       string `json:"id" example:"V1StGXR8_Z5j"`
	Kind     string `json:"kind" enum:"url,hls,file,live"`
	Source   string `json:"source" example:"https://example.org/film.mp4" doc:"the URL, or /sample.webm, which every server has; of a file and of a live stream its id"`
	Title    string `json:"title" example:"The film"`
	Duration int64  `json:"duration,omitempty" doc:"ms; 0: not known"`
	By       string `json:"by" example:"V1StGXR8_Z5j" doc:"the user who added it"`
	Added    Time   `json:"added"`
}

// RoomItemNew adds to the end of a playlist: POST /v1/rooms/{room}/playlist.
type RoomItemNew struct {
	Kind     string `json:"kind" enum:"url,hls,file,live"`
	Source   string `json:"source" minLength:"1" maxLength:"2000" example:"https://example.org/film.mp4"`
	Title    string `json:"title,omitempty" example:"The film" maxLength:"200"`
	Duration int64  `json:"duration,omitempty" minimum:"0" maximum:"2592000000" doc:"ms"`
}

// RoomPlaylist is what a room is going to see, in its order.
type RoomPlaylist struct {
	Items []RoomItem `json:"items"`
}

// RoomItemMove puts an item elsewhere: POST /v1/rooms/{room}/playlist/{item}/move.
type RoomItemMove struct {
	After string `json:"after,omitempty" maxLength:"12" doc:"behind this item; none: to the front"`
}

// RoomItemSource is how an item is fetched: GET /v1/rooms/{room}/playlist/{item}/source.
type RoomItemSource struct {
	Kind    string `json:"kind" enum:"url,hls,file,live"`
	URL     string `json:"url,omitempty" example:"https://example.org/film.mp4" doc:"/sample.webm is a path of the server; of a live stream it is the path at which it is watched by WHEP"`
	Token   string `json:"token,omitempty" example:"stoa_live_tV1StGXR8_Z5j0suqz4kXq3vT8mZr1Lw5yKp9NbHc2Hk3u7sPq2ZxBXq3vT8mZr1" doc:"of a live stream: the bearer token for that path"`
	Expires *Time  `json:"expires,omitempty" doc:"until when the URL, or the token, is good"`
}

// RoomSay says something in a room's chat: POST /v1/rooms/{room}/chat.
type RoomSay struct {
	Text string `json:"text" minLength:"1" maxLength:"500" example:"Popcorn?"`
}

// RoomLine is something that was said in a room.
type RoomLine struct {
	Room  string `json:"room" example:"Hk3u7sPq2ZxB"`
	Seq   int64  `json:"seq" doc:"its number in the room"`
	From  string `json:"from" example:"V1StGXR8_Z5j" doc:"the id of a user or a guest"`
	Name  string `json:"name" example:"Ada" doc:"what they were called then"`
	Guest bool   `json:"guest,omitempty" doc:"a guest said it, under a name of their choice"`
	Text  string `json:"text" example:"What a scene!"`
	At    Time   `json:"at"`
}

// RoomLines are the latest of a room's chat, in their order. Those of people whom the caller blocks are not
// among them.
type RoomLines struct {
	Lines []RoomLine `json:"lines"`
	More  bool       `json:"more" doc:"there are older ones"`
}

// Where danmaku flies.
const (
	DanmakuScroll = "scroll"
	DanmakuTop    = "top"
	DanmakuBottom = "bottom"
)

// DanmakuNew has a comment fly over the picture: POST /v1/rooms/{room}/danmaku.
type DanmakuNew struct {
	Text     string `json:"text" minLength:"1" maxLength:"100" example:"Wow"`
	Item     string `json:"item,omitempty" example:"c0aT9vWm4LyR" maxLength:"12" doc:"the item that the caller sees"`
	Position int64  `json:"position,omitempty" minimum:"0" maximum:"2592000000" doc:"where in the item, ms"`
	Color    int    `json:"color,omitempty" minimum:"0" maximum:"16777215" doc:"RGB"`
	Mode     string `json:"mode,omitempty" enum:"scroll,top,bottom" doc:"scroll, unless it is given"`
	Size     string `json:"size,omitempty" enum:"small,normal,large" doc:"normal, unless it is given"`
}

// Danmaku is a comment that flies over the picture.
type Danmaku struct {
	ID       string `json:"id" example:"V1StGXR8_Z5j"`
	Room     string `json:"room" example:"Hk3u7sPq2ZxB"`
	From     string `json:"from" example:"V1StGXR8_Z5j" doc:"the id of a user or a guest"`
	Text     string `json:"text" example:"What a scene!"`
	Item     string `json:"item,omitempty" example:"c0aT9vWm4LyR"`
	Position int64  `json:"position"`
	Color    int    `json:"color"`
	Mode     string `json:"mode" enum:"scroll,top,bottom"`
	Size     string `json:"size" enum:"small,normal,large"`
	At       Time   `json:"at"`
}

// DanmakuList is what flew at a part of an item, in the order of positions:
// GET /v1/rooms/{room}/danmaku.
type DanmakuList struct {
	Danmaku []Danmaku `json:"danmaku"`
	Next    string    `json:"next,omitempty"`
}

// RoomScene is all that a client needs to show a room: GET /v1/rooms/{room}/scene. A client subscribes to
// [RoomChannel], reads the scene, and follows the events from there; when it has been cut off it reads the scene
// again.
type RoomScene struct {
	Room     Room         `json:"room"`
	Me       RoomSelf     `json:"me"`
	Playback Playback     `json:"playback"`
	Playlist RoomPlaylist `json:"playlist"`
	Danmaku  []Danmaku    `json:"danmaku" doc:"what flies"`
	Clock    int64        `json:"clock" doc:"the servers' clock, Unix ms"`
}

// RoomOnline are those who are on line in a room, the last active first.
type RoomOnline struct {
	Viewers []RoomViewer `json:"viewers"`
}

// RoomViewer is someone on line in a room.
type RoomViewer struct {
	ID     string `json:"id" example:"V1StGXR8_Z5j" doc:"of a user or a guest"`
	Active Time   `json:"active" doc:"when they last did something"`
}

// RoomViewers is how many are on line in a room.
type RoomViewers struct {
	Room    string `json:"room" example:"Hk3u7sPq2ZxB"`
	Viewers int    `json:"viewers"`
}

// RoomGone tells that someone is not in a room any more.
type RoomGone struct {
	Room    string `json:"room" example:"Hk3u7sPq2ZxB"`
	User    string `json:"user" example:"V1StGXR8_Z5j"`
	Why     string `json:"why" enum:"left,kicked,banned,closed,erased"`
	Version int64  `json:"version,omitempty" doc:"of the room, unless it is closed; ignore an event of this user with a lower version than the last one"`
}

// Why somebody is not in a room any more.
const (
	RoomLeft   = "left"
	RoomKicked = "kicked"
	RoomBanned = "banned"
	RoomClosed = "closed"
	RoomErased = "erased"
)

// RoomRef names a room.
type RoomRef struct {
	Room string `json:"room" example:"Hk3u7sPq2ZxB"`
}

// Types of events of a room, on its channel, with what their data is.
const (
	EventRoomChanged        = "room.changed"         // Room: its settings have changed; read the room again, for words and for what one may do
	EventRoomMember         = "room.member"          // RoomMember: joined, in a room of up to 200; or changed
	EventRoomGone           = "room.gone"            // RoomGone: in a larger room of those who were taken out; also on the channel of whoever is gone
	EventRoomPlayback       = "room.playback"        // Playback
	EventRoomPlaylist       = "room.playlist"        // RoomRef: it has changed
	EventRoomSaid           = "room.said"            // RoomLine
	EventRoomDanmaku        = "room.danmaku"         // Danmaku
	EventRoomDanmakuCleared = "room.danmaku_cleared" // RoomRef
	EventRoomViewers        = "room.viewers"         // RoomViewers
)

// roomChannels begins the channels of rooms.
const roomChannels = "room/"

// RoomChannel is the channel to which a client subscribes while it shows a room.
func RoomChannel(room string) string { return roomChannels + room }
