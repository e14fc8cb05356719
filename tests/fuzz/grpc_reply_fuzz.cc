// SPDX-License-Identifier: Apache-2.0
// The reply to a gRPC call does not depend on how its body is split, and an accepted one is exactly
// the frame that was sent, within the limit.
//
// The input: trailers as "name:value" lines, an empty line, the body.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/parse.h"
#include "wire/grpc_reply.h"

namespace {

using namespace forestall;
using namespace forestall::wire;

constexpr std::size_t kLimit = 64;

GrpcReply read(std::string_view trailers, std::string_view body, std::size_t piece) {
  GrpcReplyReader reader(kLimit);
  for (std::size_t i = 0; i < body.size(); i += piece) {
    if (!reader.data(body.substr(i, piece))) break;
  }
  while (!trailers.empty()) {
    std::string_view line = next_field(trailers, '\n');
    const std::string_view name = next_field(line, ':');
    reader.header(name, line);
  }
  return std::move(reader).finish(0);
}

bool equal(const GrpcReply& a, const GrpcReply& b) {
  return a.status == b.status && a.code == b.code && a.message == b.message && a.body == b.body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find("\n\n"), input.size());
  const std::string_view trailers = input.substr(0, end);
  const std::string_view body = input.substr(std::min(end + 2, input.size()));
  const GrpcReply whole = read(trailers, body, input.size() + 1);
  if (!equal(whole, read(trailers, body, 1)) || !equal(whole, read(trailers, body, 7))) {
    std::abort();
  }
  if (whole.ok() && (whole.body.size() > kLimit || grpc_frame(whole.body) != body)) std::abort();
  return 0;
}
