package api

// Stream is a live stream: what somebody publishes by WHIP, and others watch by WHEP.
type Stream struct {
	ID       string      `json:"id" example:"V1StGXR8_Z5j"`
	Owner    string      `json:"owner" example:"V1StGXR8_Z5j"`
	Title    string      `json:"title" example:"Sunday match"`
	Access   string      `json:"access" enum:"key,open" doc:"who may watch: whoever has the play key, or every user"`
	Record   bool        `json:"record" doc:"what is published is recorded"`
	Live     *StreamLive `json:"live,omitempty" doc:"none: nobody publishes it"`
	Created  Time        `json:"created"`
	LastLive *Time       `json:"last_live,omitempty" doc:"when it was published last"`
}

// StreamLive is what is known of a stream that is published.
type StreamLive struct {
	Since     Time   `json:"since"`
	Video     string `json:"video,omitempty" example:"VP8" doc:"codec of the pictures: VP8 or H264; none: there are none"`
	Audio     string `json:"audio,omitempty" example:"opus" doc:"codec of the sound; none: there is none"`
	Recording bool   `json:"recording" doc:"it is being recorded"`
	Viewers   int    `json:"viewers" doc:"who watch by now, on all nodes; a node that died takes up to 30 seconds"`
	Bitrate   int64  `json:"bitrate" doc:"bits a second that the publisher has sent of late"`
	Packets   int64  `json:"packets" doc:"RTP packets that have come of the publisher"`
	Bytes     int64  `json:"bytes" doc:"bytes of media that have come of the publisher"`
	Lost      int64  `json:"lost" doc:"packets that never came"`
}

// StreamNew makes a stream: POST /v1/streams.
type StreamNew struct {
	Title  string  `json:"title" minLength:"1" maxLength:"100" example:"Sunday match"`
	Access *string `json:"access,omitempty" enum:"key,open" doc:"key, unless it is given"`
	Record *bool   `json:"record,omitempty"`
}

// StreamUpdate changes what is present and leaves the rest: PATCH /v1/streams/{stream}.
type StreamUpdate struct {
	Title  *string `json:"title,omitempty" minLength:"1" maxLength:"100" example:"Sunday match"`
	Access *string `json:"access,omitempty" enum:"key,open"`
	Record *bool   `json:"record,omitempty" doc:"from the next publisher on"`
}

// StreamKeys are keys of a stream, as they are shown once.
type StreamKeys struct {
	Publish string `json:"publish,omitempty" example:"stoa_live_pV1StGXR8_Z5jHk3u7sPq2ZxBXq3vT8mZr1Lw5yKp9NbHc" doc:"bearer token for POST /v1/streams/{stream}/whip"`
	Play    string `json:"play,omitempty" example:"stoa_live_wV1StGXR8_Z5jHk3u7sPq2ZxBXq3vT8mZr1Lw5yKp9NbHc" doc:"bearer token for POST /v1/streams/{stream}/whep"`
}

// StreamKeyed is a stream with its keys.
type StreamKeyed struct {
	Stream Stream     `json:"stream"`
	Keys   StreamKeys `json:"keys"`
}

// StreamRotate says which keys are to be new: POST /v1/streams/{stream}/keys.
type StreamRotate struct {
	Publish bool `json:"publish,omitempty" doc:"a new publish key; who publishes with the old one is sent away"`
	Play    bool `json:"play,omitempty" doc:"a new play key; who watches with the old one, or from a room, is sent away"`
}

// Streams is a page of streams.
type Streams struct {
	Streams []Stream `json:"streams"`
	Next    string   `json:"next,omitempty" doc:"cursor of the page after; none at the end"`
}

// StreamViewer is someone who watches.
type StreamViewer struct {
	Session string `json:"session" example:"V1StGXR8_Z5j"`
	User    string `json:"user,omitempty" example:"V1StGXR8_Z5j" doc:"none: whoever has come with the play key, or from a room"`
	Node    string `json:"node" example:"V1StGXR8_Z5j" doc:"the server's node"`
}

// StreamViewers are those who watch a stream, at most 1000.
type StreamViewers struct {
	Viewers []StreamViewer `json:"viewers"`
}

// StreamRecording is what was recorded of one publisher.
type StreamRecording struct {
	ID       string `json:"id" example:"V1StGXR8_Z5j"`
	File     string `json:"file,omitempty" example:"V1StGXR8_Z5j" doc:"the transfer that has the file; it can go on a room's playlist"`
	Fault    string `json:"fault,omitempty" example:"transfer.quota" doc:"why there is no file"`
	Started  Time   `json:"started"`
	Duration int64  `json:"duration" doc:"ms"`
	Bytes    int64  `json:"bytes"`
}

// StreamRecordings is a page of the recordings of a stream, the newest first.
type StreamRecordings struct {
	Recordings []StreamRecording `json:"recordings"`
	Next       string            `json:"next,omitempty" doc:"cursor of the page after; none at the end"`
}
