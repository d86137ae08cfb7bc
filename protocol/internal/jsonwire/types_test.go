package jsonwire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/agent-executor/executor/protocol"
)

// types are what the differential tests go over: everything on the wire, and
// everything odd a struct may have.
var types = []reflect.Type{
	reflect.TypeFor[protocol.RegisterParams](), reflect.TypeFor[protocol.RegisterResult](),
	reflect.TypeFor[protocol.HeartbeatParams](), reflect.TypeFor[protocol.HeartbeatResult](),
	reflect.TypeFor[protocol.TokenRefreshParams](), reflect.TypeFor[protocol.TokenRefreshResult](),
	reflect.TypeFor[protocol.CapabilitiesUpdateParams](), reflect.TypeFor[protocol.DrainParams](),
	reflect.TypeFor[protocol.DrainResult](), reflect.TypeFor[protocol.CloseParams](),
	reflect.TypeFor[protocol.SessionAssignParams](), reflect.TypeFor[protocol.SessionAssignResult](),
	reflect.TypeFor[protocol.SessionReadyParams](), reflect.TypeFor[protocol.SessionStatusParams](),
	reflect.TypeFor[protocol.SessionStopParams](), reflect.TypeFor[protocol.SessionStopResult](),
	reflect.TypeFor[protocol.SessionEndedParams](), reflect.TypeFor[protocol.SessionCloseParams](),
	reflect.TypeFor[protocol.SessionCloseResult](), reflect.TypeFor[protocol.SessionEventParams](),
	reflect.TypeFor[protocol.SessionEventResult](), reflect.TypeFor[protocol.SessionEventDeltaParams](),
	reflect.TypeFor[protocol.SessionWakeParams](), reflect.TypeFor[protocol.AcceptedResult](),
	reflect.TypeFor[protocol.ToolCallParams](), reflect.TypeFor[protocol.ToolCancelParams](),
	reflect.TypeFor[protocol.ToolCancelResult](), reflect.TypeFor[protocol.ToolProgressParams](),
	reflect.TypeFor[protocol.ToolResultParams](), reflect.TypeFor[[]protocol.ToolInfo](),
	reflect.TypeFor[protocol.ProcessStartParams](), reflect.TypeFor[protocol.ProcessState](),
	reflect.TypeFor[protocol.ProcessReadParams](), reflect.TypeFor[protocol.ProcessReadResult](),
	reflect.TypeFor[protocol.ProcessWriteParams](), reflect.TypeFor[protocol.ProcessWriteResult](),
	reflect.TypeFor[protocol.ProcessSignalParams](), reflect.TypeFor[protocol.ProcessListParams](),
	reflect.TypeFor[protocol.ProcessListResult](), reflect.TypeFor[protocol.ProcessStatusParams](),
	reflect.TypeFor[protocol.ProcessResizeParams](), reflect.TypeFor[protocol.ProcessSubscribeParams](),
	reflect.TypeFor[protocol.ProcessOutputParams](), reflect.TypeFor[protocol.ProcessAckParams](),
	reflect.TypeFor[protocol.TerminalOpenParams](), reflect.TypeFor[protocol.TerminalOpenResult](),
	reflect.TypeFor[protocol.TerminalAttachParams](), reflect.TypeFor[protocol.TerminalAttachResult](),
	reflect.TypeFor[protocol.TerminalCloseParams](), reflect.TypeFor[protocol.TerminalCloseResult](),
	reflect.TypeFor[protocol.TerminalMessage](), reflect.TypeFor[protocol.ErrorData](),
	reflect.TypeFor[protocol.TurnStartParams](), reflect.TypeFor[protocol.TurnStartResult](),
	reflect.TypeFor[protocol.TurnInputParams](), reflect.TypeFor[protocol.TurnCancelParams](),
	reflect.TypeFor[protocol.TurnCancelResult](), reflect.TypeFor[protocol.InteractionRequestParams](),
	reflect.TypeFor[protocol.InteractionRequestResult](), reflect.TypeFor[protocol.InteractionResponseParams](),
	reflect.TypeFor[protocol.InteractionCancelParams](), reflect.TypeFor[protocol.SkillInstallParams](),
	reflect.TypeFor[protocol.SkillInstallResult](), reflect.TypeFor[protocol.WorkspaceBackupParams](),
	reflect.TypeFor[protocol.WorkspaceBackupResult](), reflect.TypeFor[protocol.FSMountParams](),
	reflect.TypeFor[protocol.FSMountResult](), reflect.TypeFor[protocol.FSUnmountParams](),
	reflect.TypeFor[protocol.FSUnmountResult](), reflect.TypeFor[protocol.Capabilities](),
	reflect.TypeFor[protocol.AgentDetails](), reflect.TypeFor[protocol.ProcessDetails](),
	reflect.TypeFor[protocol.FilesDetails](), reflect.TypeFor[protocol.TokenExchangeResponse](),

	reflect.TypeFor[odd](), reflect.TypeFor[numbers](), reflect.TypeFor[methods](), reflect.TypeFor[zeros](),
	reflect.TypeFor[embedding](), reflect.TypeFor[quoting](), reflect.TypeFor[twice](), reflect.TypeFor[tree](),
	reflect.TypeFor[string](), reflect.TypeFor[int8](), reflect.TypeFor[uint64](), reflect.TypeFor[bool](),
	reflect.TypeFor[float64](), reflect.TypeFor[[]byte](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[any](),
	reflect.TypeFor[[]string](), reflect.TypeFor[[][]int](), reflect.TypeFor[*string](), reflect.TypeFor[**int](),
	reflect.TypeFor[map[string]string](), reflect.TypeFor[map[string]*tree](), reflect.TypeFor[[3]int](),
	reflect.TypeFor[protocol.Time](), reflect.TypeFor[time.Time](), reflect.TypeFor[textual](), reflect.TypeFor[struct{}](),
}

type (
	odd struct {
		Plain   string
		Skipped string `json:"-"`
		//lint:ignore SA5008 on purpose
		Dash        string `json:"-,"`
		hidden      string
		Space       string `json:"with space"`
		EmptyName   int    `json:",omitempty"`
		Named       word   `json:"named,omitempty"`
		Any         any    `json:"any,omitempty"`
		Anys        []any  `json:"anys"`
		Array       [2]int `json:"array"`
		Float       float64
		Float32     float32        `json:"float32,omitempty"`
		IntMap      map[int]string `json:"int_map,omitempty"`
		Env         env            `json:"env"`
		Strings     map[string]string
		Blobs       [][]byte          `json:"blobs"`
		Named8      []octet           `json:"named8"`
		NamedBlob   blob              `json:"named_blob"`
		RawPointer  *json.RawMessage  `json:"raw_pointer"`
		Raws        []json.RawMessage `json:"raws"`
		LikeRaw     likeRaw           `json:"like_raw"`
		Number      json.Number       `json:"number,omitempty"`
		Pointers    **string          `json:"pointers"`
		SlicePtr    *[]string         `json:"slice_ptr,omitempty"`
		Strs        []*string         `json:"strs"`
		Duration    time.Duration
		Structs     []numbers `json:"structs,omitempty"`
		Struct      struct{ A, B string }
		OmitStruct  numbers `json:"omit_struct,omitempty"`
		ZeroStruct  numbers `json:"zero_struct,omitzero"`
		OmitPointer *bool   `json:"omit_pointer,omitempty"`
	}
	numbers struct {
		I   int
		I8  int8
		I16 int16
		I32 int32 `json:"i32"`
		I64 int64 `json:"i64,omitempty"`
		U   uint
		U8  uint8
		U16 uint16
		U32 uint32
		U64 uint64 `json:",omitzero"`
		Ptr uintptr
		B   bool
	}
	methods struct {
		Text      textual   `json:"text"`
		TextPtr   *textual  `json:"text_ptr"`
		Texts     []textual `json:"texts"`
		Shout     shout     `json:"shout"`
		Shouts    []shout   `json:"shouts"`
		ShoutPtr  *shout    `json:"shout_ptr,omitempty"`
		Upper     upper     `json:"upper"`
		UpperPtr  *upper    `json:"upper_ptr"`
		Uppers    []upper   `json:"uppers"`
		ReadOnly  readOnly  `json:"read_only"`
		WriteOnly writeOnly `json:"write_only"`
		At        time.Time `json:"at,omitzero"`
		Wire      protocol.Time
		WirePtr   *protocol.Time `json:"wire_ptr"`
	}
	zeros struct {
		At     time.Time     `json:"at,omitzero"`
		Wire   protocol.Time `json:"wire,omitzero"`
		Ptr    *time.Time    `json:"ptr,omitzero"`
		Both   time.Time     `json:"both,omitzero,omitempty"`
		Seven  seven         `json:"seven,omitzero"`
		Sevens *seven        `json:"sevens,omitzero"`
		Iface  interface{ IsZero() bool }
		Str    string            `json:"str,omitzero"`
		Slice  []string          `json:"slice,omitzero"`
		Map    map[string]string `json:"map,omitzero"`
	}
	base      struct{ Base, Plain string }
	embedding struct {
		base
		*numbers
		Plain string
	}
	quoting struct {
		N int    `json:"n,string"`
		S string `json:"s,string"`
		P *int   `json:"p,string"`
		//lint:ignore SA5008 on purpose
		A []int   `json:"a,string"`
		F float64 `json:"f"`
	}
	twice struct {
		A string `json:"C"` // hides the other one
		C string
	}
	tree struct {
		Name  string           `json:"name,omitempty"`
		Left  *tree            `json:"left,omitempty"`
		Trees []tree           `json:"trees,omitempty"`
		Map   map[string]*tree `json:"map,omitempty"`
	}
	word    string
	env     map[string]string
	octet   uint8
	blob    []byte
	likeRaw json.RawMessage

	textual   struct{ s string }
	shout     string // MarshalJSON and UnmarshalJSON
	upper     string // MarshalJSON of the pointer only
	readOnly  string // UnmarshalJSON only
	writeOnly string // MarshalJSON only
	seven     int    // zero is 7
)

func (t textual) MarshalText() ([]byte, error) {
	if t.s == "bad" {
		return nil, errors.New("bad")
	}
	return []byte("<" + t.s + ">"), nil
}

func (t *textual) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return errors.New("empty")
	}
	t.s = string(b)
	return nil
}

// MarshalJSON writes white space and HTML, or what is no JSON.
func (s shout) MarshalJSON() ([]byte, error) {
	switch s {
	case "bad":
		return nil, errors.New("bad")
	case "broken":
		return []byte(`{"a":`), nil
	}
	q, _ := json.Marshal(string(s))
	return []byte(` { "loud" : [ ` + string(q) + ` , "<&>` + "\u2028" + `" ] } `), nil
}

func (s *shout) UnmarshalJSON(b []byte) error {
	if strings.Contains(string(b), "bad") {
		return errors.New("bad")
	}
	*s = shout(b)
	return nil
}

func (u *upper) MarshalJSON() ([]byte, error) { return json.Marshal(strings.ToUpper(string(*u))) }

func (r *readOnly) UnmarshalJSON(b []byte) error { *r = readOnly(b); return nil }

func (w writeOnly) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

var _ = odd{}.hidden // it only has to stay out of the JSON

func (s *seven) IsZero() bool { return *s == 7 }
