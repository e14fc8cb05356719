// SPDX-License-Identifier: Apache-2.0
// The server with correct and incorrect clients. tests/service/agent_service_test.cc tests it with
// grpc++.
#include "wire/grpc_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "support/h2_client.h"
#include "support/temp_tree.h"
#include "support/toy_service.h"
#include "wire/grpc_wire.h"

namespace forestall::wire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::H2Client;
using testing::HasSubstr;
using wire::grpc_frame;

// Long enough for a busy machine, short enough for a test.
GrpcLimits short_limits() {
  GrpcLimits limits;
  limits.request = milliseconds(500);
  limits.patience = milliseconds(500);
  limits.idle = milliseconds(500);
  return limits;
}

// Only readers have a deadline: the clients next to them may be slow because the machine is.
GrpcLimits short_patience() {
  GrpcLimits limits;
  limits.patience = milliseconds(500);
  return limits;
}

class GrpcServerTest : public testing::Test {
 protected:
  void start(const GrpcLimits& limits = GrpcLimits(), const LocalUsers& users = LocalUsers()) {
    server_.reset();
    auto started = GrpcServer::start(path(), users, service_, counts_, limits);
    ASSERT_TRUE(started.ok()) << started.error().text();
    server_ = std::move(*started);
  }
  [[nodiscard]] std::string path() const { return directory_ / "s"; }
  // Whether a correct client is served.
  void expect_service() {
    H2Client client(path());
    const auto stream = client.request("/t.T/Echo", grpc_frame("hello"));
    ASSERT_TRUE(client.finish(stream));
    EXPECT_EQ(client.answer(stream).body, grpc_frame("hello"));
    EXPECT_EQ(client.answer(stream).fields["grpc-status"], "0");
  }

  test::TempTree directory_;
  ToyService service_;
  GrpcCounts counts_;
  std::unique_ptr<GrpcServer> server_;
};

std::string status_of(H2Client& client, std::int32_t stream) {
  return client.answer(stream).fields["grpc-status"];
}

TEST_F(GrpcServerTest, AnswersWithHeadersMessagesAndTrailers) {
  start();
  H2Client client(path());
  const auto stream =
      client.request("/t.T/Echo", grpc_frame("a") + grpc_frame("") + grpc_frame("c"));
  ASSERT_TRUE(client.finish(stream));
  const auto& answer = client.answer(stream);
  EXPECT_EQ(answer.body, grpc_frame("a") + grpc_frame("") + grpc_frame("c"));
  EXPECT_THAT(answer.fields,
              testing::IsSupersetOf({std::pair<const std::string, std::string>{":status", "200"},
                                     {"content-type", "application/grpc"},
                                     {"grpc-status", "0"}}));
  EXPECT_EQ(counts_.calls, 1U);
  EXPECT_EQ(counts_.connections, 1U);
}

TEST_F(GrpcServerTest, AnswersManyCallsOnOneConnection) {
  start();
  H2Client client(path());
  for (int i = 0; i < 500; ++i) {
    const auto stream = client.request("/t.T/Echo", grpc_frame(std::string(1000, 'x')));
    ASSERT_TRUE(client.finish(stream)) << i;
    ASSERT_EQ(status_of(client, stream), "0") << i;
  }
}

TEST_F(GrpcServerTest, SendsEventsToAllSubscribers) {
  start();
  H2Client one(path());
  H2Client other(path());
  const auto a = one.request("/t.T/Wait", grpc_frame(""));
  const auto b = other.request("/t.T/Wait", grpc_frame(""));
  // Its header fields show that the stream was accepted.
  ASSERT_TRUE(one.run_until([&] { return !one.answer(a).fields.empty(); }));
  ASSERT_TRUE(other.run_until([&] { return !other.answer(b).fields.empty(); }));
  service_.send("news");
  EXPECT_TRUE(one.run_until([&] { return one.answer(a).body == grpc_frame("news"); }));
  EXPECT_TRUE(other.run_until([&] { return other.answer(b).body == grpc_frame("news"); }));
  service_.send("more");
  EXPECT_TRUE(
      one.run_until([&] { return one.answer(a).body == grpc_frame("news") + grpc_frame("more"); }));
}

TEST_F(GrpcServerTest, RefusesInvalidCalls) {
  start();
  H2Client client(path());
  const auto unknown = client.request("/t.T/No%Such", grpc_frame(""));
  ASSERT_TRUE(client.finish(unknown));
  EXPECT_EQ(status_of(client, unknown), "12");
  EXPECT_EQ(client.answer(unknown).fields["grpc-message"], "unknown method /t.T/No%25Such");
  const auto get = client.request("/t.T/Echo", "", true, {{":method", "GET"}});
  ASSERT_TRUE(client.finish(get));
  EXPECT_EQ(client.answer(get).fields[":status"], "405");
  const auto json = client.request("/t.T/Echo", "{}", true, {{"content-type", "application/json"}});
  ASSERT_TRUE(client.finish(json));
  EXPECT_EQ(client.answer(json).fields[":status"], "415");
  const auto zipped = client.request("/t.T/Echo", "", true, {{"grpc-encoding", "gzip"}});
  ASSERT_TRUE(client.finish(zipped));
  EXPECT_EQ(status_of(client, zipped), "12");
  EXPECT_EQ(client.answer(zipped).fields["grpc-accept-encoding"], "identity");
  const auto timeless = client.request("/t.T/Echo", "", true, {{"grpc-timeout", "soon"}});
  ASSERT_TRUE(client.finish(timeless));
  EXPECT_EQ(status_of(client, timeless), "3");
  EXPECT_FALSE(client.hung_up());
}

TEST_F(GrpcServerTest, RefusesMessagesThatAreTooLongCutShortOrCompressed) {
  start();
  H2Client client(path());
  const std::size_t limit = GrpcLimits().message_bytes;
  const auto fits = client.request("/t.T/Echo", grpc_frame(std::string(limit, 'x')));
  ASSERT_TRUE(client.finish(fits));
  EXPECT_EQ(status_of(client, fits), "0");
  const auto large = client.request("/t.T/Echo", grpc_frame(std::string(limit + 1, 'x')));
  ASSERT_TRUE(client.finish(large));
  EXPECT_EQ(status_of(client, large), "8");
  const auto cut = client.request("/t.T/Echo", std::string("\0\0\0\0\5abc", 8));
  ASSERT_TRUE(client.finish(cut));
  EXPECT_EQ(status_of(client, cut), "13");
  const auto zipped = client.request("/t.T/Echo", std::string("\1\0\0\0\1a", 6));
  ASSERT_TRUE(client.finish(zipped));
  EXPECT_EQ(status_of(client, zipped), "12");
  // The refused bytes are returned to the connection's window: it is 64 KiB, and these are 400.
  for (int i = 0; i < 20; ++i) {
    const auto again = client.request("/t.T/Nothing", grpc_frame(std::string(20'000, 'x')));
    ASSERT_TRUE(client.finish(again)) << i;
  }
}

TEST_F(GrpcServerTest, HeadersHaveALimit) {
  start();
  H2Client client(path());
  const auto stream =
      client.request("/t.T/Echo", grpc_frame(""), true, {{"x", std::string(9000, 'x')}});
  ASSERT_TRUE(client.finish(stream));
  EXPECT_NE(client.answer(stream).closed, std::uint32_t{NGHTTP2_NO_ERROR});
  const auto after = client.request("/t.T/Echo", grpc_frame("y"));
  ASSERT_TRUE(client.finish(after));
  EXPECT_EQ(status_of(client, after), "0");
}

TEST_F(GrpcServerTest, ATimeTheClientGaveEndsTheCall) {
  start();
  H2Client client(path());
  const auto stream = client.request("/t.T/Wait", grpc_frame(""), true, {{"grpc-timeout", "50m"}});
  ASSERT_TRUE(client.finish(stream));
  EXPECT_EQ(status_of(client, stream), "4");
  EXPECT_EQ(counts_.slow_readers, 0U);
}

TEST_F(GrpcServerTest, ARequestThatIsNeverFinishedIsGivenUp) {
  start(short_limits());
  H2Client client(path());
  const auto stream = client.request("/t.T/Echo", "", false);
  ASSERT_TRUE(client.finish(stream));
  EXPECT_EQ(status_of(client, stream), "4");
}

// Its window is closed, so it accepts nothing, although its socket does.
TEST_F(GrpcServerTest, AReaderWithAClosedWindowIsDroppedAndCounted) {
  start(short_patience());
  H2Client client(path(), {0, true});
  const auto stream = client.request("/t.T/Flood", grpc_frame(""));
  ASSERT_TRUE(client.finish(stream));
  EXPECT_EQ(client.answer(stream).closed, std::uint32_t{NGHTTP2_ENHANCE_YOUR_CALM});
  EXPECT_EQ(counts_.slow_readers, 1U);
  EXPECT_FALSE(client.hung_up());
}

// A client that waits for events with a closed window has nothing to read, and stays.
TEST_F(GrpcServerTest, AnIdleSubscriberIsNotSlow) {
  start(short_patience());
  H2Client client(path());
  const auto stream = client.request("/t.T/Wait", grpc_frame(""));
  EXPECT_FALSE(client.run_until([&] { return client.answer(stream).closed.has_value(); },
                                milliseconds(1500)));
  service_.send("late");
  EXPECT_TRUE(client.run_until([&] { return client.answer(stream).body == grpc_frame("late"); }));
}

// Its socket is full: all other clients are still served, and it is dropped at the end.
TEST_F(GrpcServerTest, AReaderThatReadsNothingIsDroppedAndCounted) {
  start(short_patience());
  H2Client client(path(), {1U << 30, true});
  client.request("/t.T/Flood", grpc_frame(""));
  expect_service();
  const MonotonicTime until = SystemClock().now() + seconds(30);
  while (counts_.slow_readers == 0 && SystemClock().now() < until) expect_service();
  // Its call is dropped first; if it then read, it would keep its connection.
  pollfd gone{client.fd(), 0, 0};
  EXPECT_EQ(::poll(&gone, 1, 30'000), 1);
  EXPECT_NE(gone.revents & POLLHUP, 0);
  EXPECT_EQ(counts_.slow_readers, 1U) << "once for its call, not again for its connection";
}

TEST_F(GrpcServerTest, EndsTheCallsOfAClosedConnection) {
  start();
  for (int i = 0; i < 50; ++i) {
    H2Client client(path());
    client.request("/t.T/Wait", grpc_frame(""));
    client.request("/t.T/Flood", grpc_frame(""));
    if (i % 2 == 0) client.half_close();
    if (i % 3 == 0) client.run_until([] { return true; });
  }
  expect_service();
  H2Client half(path());
  half.half_close();
  EXPECT_TRUE(half.wait_closed());
}

TEST_F(GrpcServerTest, ManyResetsEndTheConnection) {
  start();
  H2Client client(path());
  for (int i = 0; i < 5000 && !client.hung_up(); ++i) {
    const auto stream = client.request("/t.T/Wait", grpc_frame(""), false);
    client.reset(stream, NGHTTP2_CANCEL);
    client.flush();
  }
  EXPECT_TRUE(client.wait_closed());
  EXPECT_EQ(client.goodbye(), std::uint32_t{NGHTTP2_INTERNAL_ERROR});
  expect_service();
}

TEST_F(GrpcServerTest, InvalidHttp2EndsTheConnection) {
  start();
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(100'000, '\0'),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)}) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    (void)::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    std::array<char, 4096> ignored{};
    while (::recv(fd.get(), ignored.data(), ignored.size(), 0) > 0) {
    }
    expect_service();
  }
  H2Client client(path());
  client.send_raw(std::string(1000, '\xff'));
  EXPECT_TRUE(client.wait_closed());
}

// More simultaneous calls than allowed: the rest are refused and may be retried.
TEST_F(GrpcServerTest, LimitsSimultaneousCalls) {
  start();
  H2Client client(path());
  std::vector<std::int32_t> streams;
  // Before it has the settings, as a client that ignores them would.
  for (int i = 0; i < 40; ++i) streams.push_back(client.request("/t.T/Wait", grpc_frame("")));
  const auto refused = [&] {
    return std::ranges::count_if(
        streams, [&](std::int32_t each) { return client.answer(each).closed.has_value(); });
  };
  EXPECT_TRUE(client.run_until([&] { return refused() >= 32 || client.hung_up(); }));
  expect_service();
}

TEST_F(GrpcServerTest, LimitsConnectionsAndClosesIdleOnes) {
  start(short_limits());
  std::vector<std::unique_ptr<H2Client>> clients;
  for (std::size_t i = 0; i < GrpcServer::kConnectionsMax + 4; ++i) {
    clients.push_back(std::make_unique<H2Client>(path()));
  }
  // This one waits until the server ends an idle one.
  expect_service();
  for (const auto& each : clients) EXPECT_TRUE(each->wait_closed());
}

TEST_F(GrpcServerTest, GuestsCannotTakeAllConnections) {
  constexpr uid_t kGuest = 1234;
  ASSERT_EQ(::chmod((directory_ / "").c_str(), 0755), 0);
  start(GrpcLimits(), {.uids = {kGuest}});
  std::vector<std::unique_ptr<H2Client>> guests;
  // The system call changes only this thread.
  ASSERT_EQ(::syscall(SYS_setresuid, -1, kGuest, -1), 0) << "needs root";
  for (std::size_t i = 0; i < GrpcServer::kConnectionsMax; ++i) {
    guests.push_back(std::make_unique<H2Client>(path()));
  }
  ASSERT_EQ(::syscall(SYS_setresuid, -1, 0, -1), 0);
  expect_service();
  for (std::size_t i = GrpcServer::kGuestConnectionsMax; i < guests.size(); ++i) {
    EXPECT_TRUE(guests[i]->wait_closed());
  }
  EXPECT_EQ(counts_.refused, guests.size() - GrpcServer::kGuestConnectionsMax);
}

TEST_F(GrpcServerTest, EndsWhileClientsAreConnected) {
  start();
  H2Client waiting(path());
  H2Client flooded(path());
  waiting.request("/t.T/Wait", grpc_frame(""));
  flooded.request("/t.T/Flood", grpc_frame(""));
  expect_service();
  server_.reset();
  EXPECT_TRUE(waiting.wait_closed());
  EXPECT_NE(::access(path().c_str(), F_OK), 0) << "the socket is removed";
}

}  // namespace
}  // namespace forestall::wire
