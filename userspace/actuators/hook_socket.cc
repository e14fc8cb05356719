// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "actuators/hook_run.h"
#include "base/trusted_file.h"

namespace forestall::actuators {
namespace {

// A server that sends more than this is not one of prekill hooks.
constexpr std::size_t kReplyMax = 64 << 10;

class SocketRun final : public HookRun {
 public:
  SocketRun(UniqueFd socket, std::string input)
      : socket_(std::move(socket)), input_(std::move(input)) {}

  [[nodiscard]] pollfd awaited() const override {
    const bool sends = sent_ < input_.size();
    return {socket_.get(), static_cast<short>(sends ? POLLOUT : POLLIN), 0};
  }

  [[nodiscard]] std::optional<HookResult> advance() override {
    if (sent_ < input_.size()) return send_more();
    std::array<char, 4096> reply{};
    const ssize_t size = ::recv(socket_.get(), reply.data(), reply.size(), MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR ? std::nullopt : failed("recv");
    if (size == 0) return ended(HookState::succeeded, "");
    received_ += static_cast<std::size_t>(size);
    if (received_ <= kReplyMax) return std::nullopt;
    return ended(HookState::failed, fmt::format("it sent more than {} KiB", kReplyMax >> 10U));
  }

  void end() override { socket_.reset(); }
  [[nodiscard]] bool is_gone() override { return !socket_; }

 private:
  std::optional<HookResult> send_more() {
    const std::string_view rest = std::string_view(input_).substr(sent_);
    const ssize_t size =
        ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR ? std::nullopt : failed("send");
    sent_ += static_cast<std::size_t>(size);
    if (sent_ == input_.size()) ::shutdown(socket_.get(), SHUT_WR);
    return std::nullopt;
  }

  std::optional<HookResult> failed(std::string_view call) {
    return ended(HookState::failed, errno_error(call, "the hook's socket").text());
  }

  std::optional<HookResult> ended(HookState state, std::string problem) {
    socket_.reset();
    HookResult result;
    result.state = state;
    result.problem = std::move(problem);
    return result;
  }

  UniqueFd socket_;
  const std::string input_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
};

// The server's credentials are those at its listen().
Result<void> check_server(int socket, const std::string& path) {
  ucred server{};
  socklen_t size = sizeof server;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &server, &size) != 0) {
    return errno_error("SO_PEERCRED", path);
  }
  if (server.uid == 0 || server.uid == ::geteuid()) return {};
  return error(fmt::format("{}: its server runs as uid {}, and only root's may get the record",
                           path, server.uid));
}

}  // namespace

Result<std::unique_ptr<HookRun>> start_socket(const HookRequest& request) {
  const std::string& path = request.hook.socket;
  TRY(check_trusted_socket(path));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Error{ENAMETOOLONG, path};
  path.copy(address.sun_path, path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_error("socket", path);
  // Fails at once if the server does not accept: EAGAIN.
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return errno_error("connect", path);
  }
  TRY(check_server(socket.get(), path));
  return std::unique_ptr<HookRun>(std::make_unique<SocketRun>(std::move(socket), request.input));
}

}  // namespace forestall::actuators
