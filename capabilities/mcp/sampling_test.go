//go:build unix

//lint:file-ignore SA1019 servers of today ask their clients so

package mcp

import (
	"context"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sampler lets a client answer servers that ask for a sample.
func sampler(o *sdk.ClientOptions, answer string) *sdk.ClientOptions {
	o.CreateMessageHandler = func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
		return &sdk.CreateMessageResult{Role: "assistant", Model: "m", Content: &sdk.TextContent{Text: answer}}, nil
	}
	return o
}

// sample asks the client of a server.
func sample(ctx context.Context, s *sdk.ServerSession, spaces int) (string, error) {
	r, err := s.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 10, Messages: []*sdk.SamplingMessage{
		{Role: "user", Content: &sdk.TextContent{Text: "how are you?" + strings.Repeat(" ", spaces)}}}})
	if err != nil {
		return "", err
	}
	return r.Content.(*sdk.TextContent).Text, nil
}
