package capabilities_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

type greetInput struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

func greet(_ context.Context, _ *capabilities.Call, in greetInput) (protocol.ToolOutput, error) {
	return protocol.Text("Hi " + in.Name), nil
}

func ExampleFunc() {
	registry := capabilities.NewRegistry(nil)
	if err := registry.Install(capabilities.Func("greet", "Say hi.", greet)); err != nil {
		panic(err)
	}
	tool, _ := registry.Tool("greet")
	fmt.Println(string(tool.Info().InputSchema))

	_, err := tool.Prepare(json.RawMessage(`{"nam":"Ann"}`))
	fmt.Println(err)

	run, err := tool.Prepare(json.RawMessage(`{"name":"Ann"}`))
	if err != nil {
		panic(err)
	}
	out, err := run(context.Background(), nil)
	fmt.Println(out.Content[0].Text, err)
	// Output:
	// {"type":"object","properties":{"name":{"type":"string","description":"whom to greet"}},"required":["name"],"additionalProperties":false}
	// invalid_params: nam: unknown member; did you mean "name"?
	// Hi Ann <nil>
}
