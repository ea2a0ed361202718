package api

// Stream is a live stream, which is published by WHIP and watched by WHEP.
type Stream struct {
	ID       string      `json:"id" example:"V1StGXR8_Z5j"`
	Owner    string      `json:"owner" example:"V1StGXR8_Z5j"`
	Title    string      `json:"title" example:"Sunday match"`
	Access   string      `json:"access" enum:"key,open" doc:"users who may watch: holders of the play key, or all users"`
	Record   bool        `json:"record" doc:"the stream is recorded"`
	Live     *StreamLive `json:"live,omitempty" doc:"absent: the stream is not live"`
	Created  Time        `json:"created"`
	LastLive *Time       `json:"last_live,omitempty" doc:"time of the last publication"`
}

// StreamLive is the state of a published stream.
type StreamLive struct {
	Since     Time   `json:"since"`
	Video     string `json:"video,omitempty" example:"VP8" doc:"video codec: VP8 or H264; absent: no video"`
	Audio     string `json:"audio,omitempty" example:"opus" doc:"audio codec; absent: no audio"`
	Recording bool   `json:"recording" doc:"the stream is currently recorded"`
	Viewers   int    `json:"viewers" doc:"on all nodes; viewers of a crashed node count for up to 30 seconds"`
	Bitrate   int64  `json:"bitrate" doc:"recent bit rate of the publisher, bits per second"`
	Packets   int64  `json:"packets" doc:"RTP packets received from the publisher"`
	Bytes     int64  `json:"bytes" doc:"media bytes received from the publisher"`
	Lost      int64  `json:"lost" doc:"lost packets"`
}

// StreamNew creates a stream: POST /v1/streams.
type StreamNew struct {
	Title  string  `json:"title" minLength:"1" maxLength:"100" example:"Sunday match"`
	Access *string `json:"access,omitempty" enum:"key,open" doc:"default: key"`
	Record *bool   `json:"record,omitempty"`
}

// StreamUpdate changes the fields that are present: PATCH /v1/streams/{stream}.
type StreamUpdate struct {
	Title  *string `json:"title,omitempty" minLength:"1" maxLength:"100" example:"Sunday match"`
	Access *string `json:"access,omitempty" enum:"key,open"`
	Record *bool   `json:"record,omitempty" doc:"applies from the next publication on"`
}

// StreamKeys are keys of a stream; they are shown only once.
type StreamKeys struct {
	Publish string `json:"publish,omitempty" example:"stoa_live_pV1StGXR8_Z5jHk3u7sPq2ZxBXq3vT8mZr1Lw5yKp9NbHc" doc:"bearer token for POST /v1/streams/{stream}/whip"`
	Play    string `json:"play,omitempty" example:"stoa_live_wV1StGXR8_Z5jHk3u7sPq2ZxBXq3vT8mZr1Lw5yKp9NbHc" doc:"bearer token for POST /v1/streams/{stream}/whep"`
}

// StreamKeyed is a stream with its keys.
type StreamKeyed struct {
	Stream Stream     `json:"stream"`
	Keys   StreamKeys `json:"keys"`
}

// StreamRotate selects the keys to replace: POST /v1/streams/{stream}/keys.
type StreamRotate struct {
	Publish bool `json:"publish,omitempty" doc:"replace the publish key; a publisher with the old one is disconnected"`
	Play    bool `json:"play,omitempty" doc:"replace the play key; its viewers and viewers in rooms are disconnected"`
}

// Streams is a page of streams.
type Streams struct {
	Streams []Stream `json:"streams"`
	Next    string   `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}

// StreamViewer is a viewer of a stream.
type StreamViewer struct {
	Session string `json:"session" example:"V1StGXR8_Z5j"`
	User    string `json:"user,omitempty" example:"V1StGXR8_Z5j" doc:"absent for viewers with the play key, or from a room"`
	Node    string `json:"node" example:"V1StGXR8_Z5j" doc:"the server's node"`
}

// StreamViewers are the viewers of a stream, at most 1000.
type StreamViewers struct {
	Viewers []StreamViewer `json:"viewers"`
}

// StreamRecording is the recording of one publication.
type StreamRecording struct {
	ID       string `json:"id" example:"V1StGXR8_Z5j"`
	File     string `json:"file,omitempty" example:"V1StGXR8_Z5j" doc:"the transfer with the file; a room's playlist accepts it"`
	Fault    string `json:"fault,omitempty" example:"transfer.quota" doc:"reason for a missing file"`
	Started  Time   `json:"started"`
	Duration int64  `json:"duration" doc:"ms"`
	Bytes    int64  `json:"bytes"`
}

// StreamRecordings is a page of the recordings of a stream, the newest first.
type StreamRecordings struct {
	Recordings []StreamRecording `json:"recordings"`
	Next       string            `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}
