// SPDX-License-Identifier: Apache-2.0
// The call itself, with every kind of peer on the socket: none, one that does not answer, one with
// another protocol. The tests of the runtime cover real answers.
#include "wire/grpc_call.h"

#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/unique_fd.h"
#include "support/temp_tree.h"

namespace forestall::wire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr const char* kMethod = "/runtime.v1.RuntimeService/Version";

// A socket that listens and accepts on command.
class Listener {
 public:
  explicit Listener(int backlog) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = this->address();
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(socket_.get(), backlog) != 0) {
      throw std::runtime_error("no socket at " + path());
    }
  }

  [[nodiscard]] std::string path() const { return directory_ / "s"; }
  [[nodiscard]] UniqueFd accept() const {
    return UniqueFd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  // A client that connects and stays in the backlog.
  [[nodiscard]] UniqueFd occupy() const {
    UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = this->address();
    if (::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("connect " + path());
    return client;
  }

 private:
  [[nodiscard]] sockaddr_un address() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof(address.sun_path) - 1);
    return address;
  }

  test::TempTree directory_;
  UniqueFd socket_;
};

// Accepts one connection, sends `bytes` to its first request, and closes.
class OneAnswer {
 public:
  OneAnswer(const Listener& listener, std::string bytes)
      : thread_([&listener, bytes = std::move(bytes)] {
          const UniqueFd connection = listener.accept();
          std::array<char, 4096> ignored{};
          if (::read(connection.get(), ignored.data(), ignored.size()) <= 0) return;
          if (::write(connection.get(), bytes.data(), bytes.size()) < 0) return;
        }) {}
  ~OneAnswer() { thread_.join(); }

 private:
  std::thread thread_;
};

GrpcTarget at(const std::string& path, int cancel_fd = -1) {
  return {path, 1024, cancel_fd};
}

TEST(GrpcCall, NoSocket) {
  const test::TempTree empty;
  const GrpcReply reply = grpc_call(at(empty / "s"), kMethod, "", seconds(2));
  EXPECT_EQ(reply.status, GrpcStatus::unavailable);
  EXPECT_EQ(reply.code, ENOENT);
  EXPECT_THAT(reply.message, HasSubstr(empty / "s"));
}

TEST(GrpcCall, SocketWithoutAListener) {
  const Listener gone(1);
  const std::string path = gone.path() + "2";
  ASSERT_EQ(::link(gone.path().c_str(), path.c_str()), 0);
  {
    const Listener other(1);
    ASSERT_EQ(::rename(other.path().c_str(), path.c_str()), 0);
  }
  EXPECT_EQ(grpc_call(at(path), kMethod, "", seconds(2)).code, ECONNREFUSED);
}

TEST(GrpcCall, PathLongerThanASocketMayHave) {
  const GrpcReply reply = grpc_call(at("/" + std::string(200, 'x')), kMethod, "", seconds(2));
  EXPECT_EQ(reply.code, ENAMETOOLONG);
}

TEST(GrpcCall, ListenerDoesNotAccept) {
  const Listener listener(8);
  const GrpcReply reply = grpc_call(at(listener.path()), kMethod, "", milliseconds(50));
  EXPECT_EQ(reply.status, GrpcStatus::deadline_exceeded);
  EXPECT_EQ(reply.code, ETIMEDOUT);
  EXPECT_THAT(reply.message, HasSubstr("50 ms"));
}

TEST(GrpcCall, FullBacklogIsWaitedForNoLongerThanTheDeadline) {
  const Listener listener(0);
  const UniqueFd first = listener.occupy();
  const MonotonicTime began = SystemClock().now();
  const GrpcReply reply = grpc_call(at(listener.path()), kMethod, "", milliseconds(50));
  EXPECT_EQ(reply.code, ETIMEDOUT);
  EXPECT_EQ(reply.status, GrpcStatus::deadline_exceeded);
  EXPECT_GE(SystemClock().now() - began, milliseconds(40));
}

TEST(GrpcCall, CancelledBeforehandItSendsNothing) {
  const Listener listener(8);
  const UniqueFd cancel(::eventfd(1, EFD_CLOEXEC));
  const GrpcReply reply = grpc_call(at(listener.path(), cancel.get()), kMethod, "", seconds(60));
  EXPECT_EQ(reply.status, GrpcStatus::cancelled);
  EXPECT_EQ(reply.code, ECANCELED);
}

TEST(GrpcCall, CancelledWhileItWaits) {
  const Listener listener(8);
  const UniqueFd cancel(::eventfd(0, EFD_CLOEXEC));
  // The peer cancels once it has the request, so the call is running.
  std::thread other_end([&] {
    const UniqueFd connection = listener.accept();
    std::array<char, 64> begin{};
    EXPECT_GT(::read(connection.get(), begin.data(), begin.size()), 0);
    ::eventfd_write(cancel.get(), 1);
    while (::read(connection.get(), begin.data(), begin.size()) > 0) {
    }
  });
  EXPECT_EQ(grpc_call(at(listener.path(), cancel.get()), kMethod, "", seconds(60)).code, ECANCELED);
  other_end.join();
}

TEST(GrpcCall, AnotherLanguage) {
  const Listener listener(8);
  const OneAnswer server(listener, "220 mail.example.com ESMTP: ready\r\n");
  const GrpcReply reply = grpc_call(at(listener.path()), kMethod, "", seconds(20));
  EXPECT_EQ(reply.code, EPROTO);
  EXPECT_THAT(reply.message, HasSubstr("not HTTP/2"));
}

TEST(GrpcCall, ClosedWithoutAnAnswer) {
  const Listener listener(8);
  const OneAnswer server(listener, "");
  const GrpcReply reply = grpc_call(at(listener.path()), kMethod, "", seconds(20));
  EXPECT_EQ(reply.status, GrpcStatus::unavailable);
  EXPECT_THAT(reply.message, HasSubstr("closed"));
}

}  // namespace
}  // namespace forestall::wire
