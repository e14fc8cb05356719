// SPDX-License-Identifier: Apache-2.0
// The server from a client's view, over a socket; and its threads from the kernel's view.
#include "exports/metrics_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/unique_fd.h"
#include "support/http_get.h"

namespace forestall::exports {
namespace {

using test::answer_of;
using test::connect_from;
using test::connect_to;
using testing::HasSubstr;
using testing::StartsWith;

class MetricsServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto started = MetricsServer::start("127.0.0.1:0", metrics_);
    ASSERT_TRUE(started.ok()) << started.error().text();
    server_ = std::move(*started);
    port_ = server_->port();
    ASSERT_NE(port_, 0);
  }

  Metrics metrics_{"1", Tier::files};
  std::unique_ptr<MetricsServer> server_;
  std::uint16_t port_ = 0;
};

TEST_F(MetricsServerTest, ServesTheText) {
  const std::string answer = test::http_get(port_, "/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  const std::string body = test::http_body(answer);
  EXPECT_THAT(answer, HasSubstr(fmt::format("Content-Length: {}\r\n", body.size())));
  EXPECT_THAT(body, HasSubstr("\n# TYPE forestall_evaluations_total counter\n"));
  EXPECT_THAT(body, HasSubstr("\nforestall_evaluations_total{wake=\"startup\"} 0\n"));
}

TEST_F(MetricsServerTest, HealthIsTheLoops) {
  EXPECT_THAT(test::http_get(port_, "/healthz"), StartsWith("HTTP/1.1 503 "));
  const Observation observation;
  const Decision decision;
  metrics_.evaluated({observation, decision, SystemClock().now()});
  const std::string answer = test::http_get(port_, "/healthz");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(test::http_body(answer), "ok\n");
}

TEST_F(MetricsServerTest, RefusesUnknownPaths) {
  EXPECT_THAT(test::http_get(port_, "/"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(test::http_get(port_, "/etc/passwd"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(test::http_get(port_, "/../../../../etc/passwd"), testing::Not(HasSubstr("root:")));
  EXPECT_THAT(test::http_get(port_, "/metrics", "POST"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(test::http_get(port_, "/metrics", "DELETE"), HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_EQ(test::http_body(test::http_get(port_, "/metrics", "HEAD")), "");
  EXPECT_THAT(test::http_get(port_, "/metrics", "HEAD"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, AQueryChangesNothing) {
  EXPECT_THAT(test::http_get(port_, "/metrics?name[]=x"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, TakesARequestInPieces) {
  const UniqueFd fd = connect_to(port_);
  for (const char piece : std::string("GET /healthz HTTP/1.0\r\n\r\n")) {
    ASSERT_EQ(send(fd.get(), &piece, 1, MSG_NOSIGNAL), 1);
  }
  EXPECT_THAT(answer_of(fd.get()), StartsWith("HTTP/1.1 503 "));
}

TEST_F(MetricsServerTest, SurvivesInvalidRequests) {
  for (const std::string& each :
       {std::string("\r\n\r\n"), std::string("nonsense\r\n\r\n"), std::string("\0\0\0\0", 4),
        "GET /metrics HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n",
        "GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\n\r\n"}) {
    const UniqueFd fd = connect_to(port_);
    (void)send(fd.get(), each.data(), each.size(), MSG_NOSIGNAL);
    shutdown(fd.get(), SHUT_WR);
    EXPECT_THAT(answer_of(fd.get()), testing::Not(HasSubstr("200 OK")));
  }
  EXPECT_THAT(test::http_get(port_, "/metrics"), StartsWith("HTTP/1.1 200 "));
}

// Clients that never finish their requests are dropped in favour of others.
TEST_F(MetricsServerTest, SlowClientsDoNotKeepTheOthersOut) {
  std::vector<UniqueFd> slow;
  for (std::size_t i = 0; i < MetricsServer::kConnectionsMax + 4; ++i) {
    slow.push_back(connect_to(port_));
    ASSERT_EQ(send(slow.back().get(), "GET", 3, MSG_NOSIGNAL), 3);
  }
  EXPECT_THAT(test::http_get(port_, "/metrics"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(answer_of(slow.front().get()), "");
}

// The answer arrives long before the idle clients would be dropped for their age.
TEST_F(MetricsServerTest, IdleClientsDoNotDelayAProbe) {
  std::vector<UniqueFd> idle;
  for (std::size_t i = 0; i < MetricsServer::kConnectionsMax + 64; ++i) {
    idle.push_back(connect_to(port_));
  }
  const MonotonicTime began = SystemClock().now();
  EXPECT_THAT(test::http_get(port_, "/healthz"), StartsWith("HTTP/1.1 503 "));
  EXPECT_LT(SystemClock().now() - began, MetricsServer::kPatience / 2);
  EXPECT_EQ(answer_of(idle.front().get()), "");
}

// A pod that connects all the time displaces its own connections only. A probe connects first and
// sends its request later.
TEST_F(MetricsServerTest, ManyClientsOfAnAddressDoNotDisplaceAnothersProbe) {
  const UniqueFd probe = connect_from(2, port_);
  std::vector<UniqueFd> crowd;
  for (std::size_t i = 0; i < MetricsServer::kConnectionsMax + 64; ++i) {
    crowd.push_back(connect_to(port_));
  }
  // Answered after the server has accepted the crowd.
  EXPECT_THAT(test::http_get(port_, "/healthz"), StartsWith("HTTP/1.1 503 "));
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  EXPECT_EQ(send(probe.get(), request.data(), request.size(), MSG_NOSIGNAL), ssize(request));
  EXPECT_THAT(answer_of(probe.get()), StartsWith("HTTP/1.1 503 "));
}

// One connection of each of many pods, all the time: as many as there is room for, with the probe.
TEST_F(MetricsServerTest, ManyAddressesDoNotDisplaceAnothersProbe) {
  const UniqueFd probe = connect_from(200, port_);
  std::vector<UniqueFd> crowd;
  for (std::size_t i = 0; i < 4 * MetricsServer::kConnectionsMax; ++i) {
    const auto pod = static_cast<std::uint8_t>(2 + i % (MetricsServer::kConnectionsMax - 1));
    crowd.push_back(connect_from(pod, port_));
  }
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  // Answered after the server has accepted the crowd, of which it is.
  const UniqueFd last = connect_from(2, port_);
  EXPECT_EQ(send(last.get(), request.data(), request.size(), MSG_NOSIGNAL), ssize(request));
  EXPECT_THAT(answer_of(last.get()), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(send(probe.get(), request.data(), request.size(), MSG_NOSIGNAL), ssize(request));
  EXPECT_THAT(answer_of(probe.get()), StartsWith("HTTP/1.1 503 "));
}

// An address that connects too often in a second waits for the next one, and no other does.
TEST_F(MetricsServerTest, AnAddressConnectsABoundedNumberOfTimesASecond) {
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  const auto writable = [](const UniqueFd& fd, int patience_ms) {
    pollfd polled{fd.get(), POLLOUT, 0};
    return poll(&polled, 1, patience_ms) == 1 && polled.revents == POLLOUT;
  };
  const MonotonicTime end = SystemClock().now() + std::chrono::seconds(60);
  UniqueFd refused;
  int made = 0;
  while (!refused) {
    ASSERT_LT(SystemClock().now(), end) << "never refused";
    UniqueFd client = test::begin_connect_from(2, port_);
    if (writable(client, 0)) {
      ASSERT_EQ(send(client.get(), request.data(), request.size(), MSG_NOSIGNAL), ssize(request));
      pollfd answered{client.get(), POLLIN, 0};  // or closed
      ASSERT_EQ(poll(&answered, 1, -1), 1);
      char first = 0;
      if (recv(client.get(), &first, 1, 0) != 1) break;  // of a kernel that refuses the filter
      ++made;
    } else {
      refused = std::move(client);
    }
  }
  EXPECT_GE(made, ConnectionRate::kOfAddress);
  EXPECT_THAT(test::http_get(port_, "/healthz"), StartsWith("HTTP/1.1 503 "));
  EXPECT_TRUE(!refused || writable(refused, 60'000)) << "the kernel tries again";
}

// Answers that their clients do not read protect no client either.
TEST_F(MetricsServerTest, AnswersThatAreNotReadDoNotDisplaceAnothersProbe) {
  // More than the kernel takes for a client that does not read.
  const std::string page(6 << 20, 'x');
  const auto large = MetricsServer::start("127.0.0.1:0", [&page](const HttpRequest& request) {
    return HttpAnswer{200, kPlainType, request.path == "/large" ? page : "small"};
  });
  ASSERT_TRUE(large.ok());
  const std::uint16_t port = (*large)->port();
  const UniqueFd probe = connect_from(2, port);
  const std::string request = "GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  std::vector<UniqueFd> crowd;
  for (std::size_t i = 0; i < MetricsServer::kAnswersMax + 1; ++i) {
    crowd.push_back(connect_to(port));
    const int bytes = 64 << 10;  // with less, the kernel sends a packet each 200 ms
    ASSERT_EQ(setsockopt(crowd.back().get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
    ASSERT_EQ(send(crowd.back().get(), request.data(), request.size(), MSG_NOSIGNAL),
              ssize(request));
    char first = 0;  // so the server sends the rest
    ASSERT_EQ(recv(crowd.back().get(), &first, 1, 0), 1);
  }
  const std::string probing = "GET /small HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  EXPECT_EQ(send(probe.get(), probing.data(), probing.size(), MSG_NOSIGNAL), ssize(probing));
  EXPECT_THAT(answer_of(probe.get()), StartsWith("HTTP/1.1 200 "));
  EXPECT_LT(answer_of(crowd.front().get()).size(), page.size()) << "answers are bounded";
}

TEST_F(MetricsServerTest, ALoopbackListenerRefusesTheNamesOfOtherHosts) {
  const auto status_for = [&](const std::string& host) {
    const UniqueFd fd = connect_to(port_);
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
    EXPECT_EQ(send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL), ssize(request));
    return answer_of(fd.get()).substr(9, 3);
  };
  for (const char* each : {"rebound.example", "rebound.example:9464", "localhost.example",
                           "127.0.0.1.example", "a@127.0.0.1"}) {
    EXPECT_EQ(status_for(each), "403") << each;
  }
  for (const char* each : {"127.0.0.1", "127.0.0.1:9464", "[::1]:9464", "localhost:9464", ""}) {
    EXPECT_EQ(status_for(each), "200") << each;
  }
}

TEST_F(MetricsServerTest, ServesAtIpv6) {
  const auto other = MetricsServer::start("[::1]:0", metrics_);
  if (!other.ok() && other.error().code == EADDRNOTAVAIL) {
    GTEST_SKIP() << "not applicable: this machine has no IPv6 loopback; the guests of the VM tests "
                 << "and ordinary hosts do";
  }
  ASSERT_TRUE(other.ok()) << other.error().text();
  EXPECT_NE((*other)->port(), 0);
}

TEST_F(MetricsServerTest, ServesManyAtOnce) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        EXPECT_THAT(test::http_get(port_, "/metrics"), HasSubstr("process_open_fds"));
      }
    });
  }
  for (std::thread& each : clients) each.join();
}

TEST_F(MetricsServerTest, ReportsAPortInUseWithItsAddress) {
  const std::string address = fmt::format("127.0.0.1:{}", port_);
  const auto second = MetricsServer::start(address, metrics_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().text(), HasSubstr(address));
  EXPECT_EQ(second.error().code, EADDRINUSE);
  EXPECT_THAT(second.error().text(), HasSubstr("in use"));
}

TEST_F(MetricsServerTest, RefusesAnInvalidAddress) {
  for (const char* each : {"", "here", "127.0.0.1:99999", "127.0.0.1:80s", "localhost:80"}) {
    EXPECT_FALSE(MetricsServer::start(each, metrics_).ok()) << each;
  }
}

// An unread response keeps its place until it is read or dropped.
TEST(HttpExchange, HoldsUntilAllIsSent) {
  const auto held = std::make_shared<int>();
  const HttpPages pages = [&held](const HttpRequest&) {
    return HttpAnswer{200, "text/plain", std::string(std::size_t{8} << 20, 'x'), {}, nullptr, held};
  };
  for (const bool reads : {true, false}) {
    int fds[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    const UniqueFd client(fds[1]);
    auto exchange = std::make_unique<HttpExchange>(UniqueFd(fds[0]), MonotonicTime::max());
    const std::string request = "GET / HTTP/1.1\r\n\r\n";
    ASSERT_EQ(send(client.get(), request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    ASSERT_TRUE(exchange->advance(pages));
    EXPECT_EQ(exchange->events(), POLLOUT);
    EXPECT_EQ(held.use_count(), 2);
    std::string part(std::size_t{1} << 20, '\0');
    while (reads && held.use_count() > 1) {
      ASSERT_GT(recv(client.get(), part.data(), part.size(), 0), 0);
      ASSERT_TRUE(exchange->advance(pages));
    }
    // Then it waits for the client to close.
    EXPECT_EQ(exchange->events(), reads ? POLLIN : POLLOUT);
    exchange.reset();
    EXPECT_EQ(held.use_count(), 1);
  }
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// By name, because a sanitizer has threads of its own.
TEST_F(MetricsServerTest, ItsThreadIsOneOrdinaryAndDeafToSignals) {
  std::vector<pid_t> its;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    if (text_of(entry.path() / "comm") != "forestall-http\n") continue;
    its.push_back(std::stoi(entry.path().filename()));
    const std::string status = text_of(entry.path() / "status");
    const auto at = status.find("SigBlk:");
    ASSERT_NE(at, std::string::npos);
    const auto blocked = std::stoull(status.substr(at + 7), nullptr, 16);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1}) {
      EXPECT_TRUE(blocked >> (signal - 1) & 1) << "signal " << signal;
    }
  }
  ASSERT_EQ(its.size(), 1U);
  EXPECT_EQ(sched_getscheduler(its.front()), SCHED_OTHER);
}

}  // namespace
}  // namespace forestall::exports
