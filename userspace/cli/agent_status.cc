// SPDX-License-Identifier: Apache-2.0
#include "cli/agent_status.h"

#include <errno.h>
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "cli/agent_socket.h"
#include "forestall/v1/service.pb.h"
#include "wire/grpc_call.h"

namespace forestall::cli {
namespace {

// A busy node may delay the agent's server thread.
constexpr Duration kPatience = std::chrono::seconds(5);
// More than any answer: a longer one is not from an agent.
constexpr std::size_t kAnswerMax = std::size_t{16} << 20;

}  // namespace

Result<v1::AgentStatus> agent_status(const std::string& socket) {
  if (socket.empty()) {
    return error(std::string(kSocketOff) + "; set --socket to read another agent");
  }
  wire::GrpcTarget target;
  target.socket = socket;
  target.max_reply_bytes = kAnswerMax;
  const wire::GrpcReply reply =
      wire::grpc_call(target, "/forestall.v1.Agent/GetStatus", "", kPatience);
  if (reply.code == ENOENT || reply.code == ECONNREFUSED) {
    return error(
        fmt::format("no agent listens at {}; start one, or set --socket if its apiSocket is "
                    "another path (with apiSocket: off it serves no status)",
                    socket));
  }
  if (!reply.ok()) {
    // A system error is clear without the gRPC status.
    if (reply.code != 0) return Error{reply.code, reply.message};
    return error(fmt::format("{}: {} ({})", socket, reply.message, to_string(reply.status)));
  }
  v1::GetStatusResponse response;
  if (!response.ParseFromString(reply.body)) {
    return error(socket + ": the listener is not an agent of this version");
  }
  return std::move(*response.mutable_status());
}

}  // namespace forestall::cli
