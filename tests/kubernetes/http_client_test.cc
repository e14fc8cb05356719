// SPDX-License-Identifier: Apache-2.0
// The transport against a server on a loopback port that answers whole, in pieces, cut, wrong or
// never.
#include "kubernetes/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "kubernetes/object_watch.h"
#include "support/fake_api_server.h"
#include "support/temp_tree.h"
#include "text/json_value.h"

namespace forestall::kubernetes {
namespace {

using std::chrono::seconds;
using test::ApiAnswer;
using test::ApiRequest;
using test::chunk;
using test::FakeApiServer;
using test::json_answer;
using test::kLastChunk;
using test::watch_answer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kPodList =
    R"({"kind":"PodList","metadata":{"resourceVersion":"10"},"items":[{"metadata":{"uid":"a"}}]})";

std::string pod_event(const std::string& type, const std::string& uid, int version) {
  return R"({"type":")" + type + R"(","object":{"metadata":{"uid":")" + uid +
         R"(","resourceVersion":")" + std::to_string(version) + "\"}}}\n";
}

Access access_to(const FakeApiServer& server) {
  Access access;
  access.server = server.url();
  access.token = "secret";
  return access;
}

// Runs the client until `done`, at most ten seconds.
bool run_until(
    HttpClient& client, const std::function<bool()>& done,
    const std::function<void()>& each_time = [] {}) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(10);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    each_time();
    client.advance();
    each_time();
    if (done()) return true;
    EXPECT_TRUE(client.wait({}, std::chrono::milliseconds(20)));
  }
  return true;
}

// The answer to one request.
AnswerCollector answer_to(const Access& access, const OutgoingRequest& request) {
  AnswerCollector answer;
  auto client = HttpClient::create(access);
  if (!client) throw std::runtime_error(client.error().text());
  const auto started = (*client)->start(request, answer);
  if (!started) {
    answer.end(started.error());
    return answer;
  }
  EXPECT_TRUE(run_until(**client, [&] { return answer.over(); }));
  return answer;
}

TEST(HttpClient, SendsTheTokenAndTheBody) {
  FakeApiServer server([](const ApiRequest&) { return json_answer(201, "{}"); });
  OutgoingRequest request;
  request.method = "POST";
  request.target = "/api/v1/namespaces/a/pods/b/eviction";
  request.body = R"({"kind":"Eviction"})";
  const AnswerCollector answer = answer_to(access_to(server), request);
  EXPECT_EQ(answer.head().code, 201);
  EXPECT_FALSE(answer.failure());
  ASSERT_EQ(server.requests().size(), 1U);
  ApiRequest sent = server.requests().front();
  EXPECT_EQ(sent.method, "POST");
  EXPECT_EQ(sent.target, request.target);
  EXPECT_EQ(sent.body, request.body);
  EXPECT_EQ(sent.headers["authorization"], "Bearer secret");
  EXPECT_EQ(sent.headers["content-type"], "application/json");
  EXPECT_EQ(sent.headers["accept"], "application/json");
}

TEST(HttpClient, SendsABodyWithDelete) {
  FakeApiServer server([](const ApiRequest&) { return json_answer(200, "{}"); });
  OutgoingRequest request;
  request.method = "DELETE";
  request.target = "/api/v1/namespaces/a/pods/b";
  request.body = R"({"preconditions":{"uid":"u"}})";
  EXPECT_EQ(answer_to(access_to(server), request).head().code, 200);
  EXPECT_EQ(server.requests().front().method, "DELETE");
  EXPECT_EQ(server.requests().front().body, request.body);
}

TEST(HttpClient, ReadsTheTokenForEachRequest) {
  FakeApiServer server([](const ApiRequest&) { return json_answer(200, "{}"); });
  const test::TempTree tree({{"token", "old"}});
  Access access = access_to(server);
  access.token_file = tree / "token";
  EXPECT_EQ(answer_to(access, {}).head().code, 200);
  tree.write("token", "new");
  EXPECT_EQ(answer_to(access, {}).head().code, 200);
  tree.write("token", "");
  EXPECT_TRUE(answer_to(access, {}).failure());
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_EQ(server.requests()[0].headers["authorization"], "Bearer old");
  EXPECT_EQ(server.requests()[1].headers["authorization"], "Bearer new");
}

TEST(HttpClient, ReadsTheHeadersOfARefusal) {
  FakeApiServer server([](const ApiRequest&) {
    return json_answer(429, "Too many requests", "Retry-After: 7\r\n");
  });
  const AnswerCollector answer = answer_to(access_to(server), {});
  EXPECT_EQ(answer.head().code, 429);
  EXPECT_EQ(answer.head().retry_after, "7");
  EXPECT_EQ(answer.head().date, "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(answer.text(), "Too many requests");
}

TEST(HttpClient, UsesAnIdleConnectionAgainBesideOpenWatches) {
  constexpr std::size_t kWatches = 8;
  FakeApiServer server([](const ApiRequest& request) {
    return request.target == "/watch" ? watch_answer() : json_answer(200, "{}");
  });
  const auto client = HttpClient::create(access_to(server)).value();
  std::vector<AnswerCollector> watches(kWatches);
  OutgoingRequest request;
  request.target = "/watch";
  for (AnswerCollector& each : watches) ASSERT_TRUE(client->start(request, each));
  ASSERT_TRUE(run_until(*client, [&] {
    return std::ranges::all_of(watches, [](const auto& each) { return each.head().code == 200; });
  }));
  request.target = "/short";
  for (int i = 0; i < 5; ++i) {
    AnswerCollector answer;
    ASSERT_TRUE(client->start(request, answer));
    ASSERT_TRUE(run_until(*client, [&] { return answer.over(); }));
    EXPECT_EQ(answer.head().code, 200);
  }
  EXPECT_EQ(server.accepted(), kWatches + 1);
}

// The server at the new address would get the token.
TEST(HttpClient, FollowsNoRedirect) {
  FakeApiServer server(
      [](const ApiRequest&) { return json_answer(302, "", "Location: http://127.0.0.1:1/\r\n"); });
  const AnswerCollector answer = answer_to(access_to(server), {});
  EXPECT_EQ(answer.head().code, 302);
  EXPECT_FALSE(answer.failure());
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(HttpClient, IgnoresTheProxiesOfTheEnvironment) {
  FakeApiServer server([](const ApiRequest&) { return json_answer(200, "{}"); });
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  ::setenv("all_proxy", "http://127.0.0.1:1", 1);
  EXPECT_EQ(answer_to(access_to(server), {}).head().code, 200);
  ::unsetenv("http_proxy");
  ::unsetenv("all_proxy");
}

TEST(HttpClient, FailsWithoutACompleteAnswer) {
  for (const char* bytes :
       {"", "garbage\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":", "HTTP/1.1 200"}) {
    FakeApiServer server([bytes](const ApiRequest&) {
      return ApiAnswer{bytes, ApiAnswer::Then::close};
    });
    EXPECT_TRUE(answer_to(access_to(server), {}).failure()) << bytes;
  }
}

TEST(HttpClient, FailsWithoutAServer) {
  Access access;
  access.server = "http://127.0.0.1:1";
  const AnswerCollector answer = answer_to(access, {});
  ASSERT_TRUE(answer.failure());
  EXPECT_THAT(answer.failure()->text(), HasSubstr("http://127.0.0.1:1: "));
}

// libcurl refuses strings of more than 8,000,000 bytes.
TEST(HttpClient, StartsNoRequestWithAnOptionThatLibcurlRefuses) {
  Access access;
  access.server = "http://127.0.0.1:1";
  const auto client = HttpClient::create(access);
  ASSERT_TRUE(client);
  AnswerCollector answer;
  OutgoingRequest request;
  request.target = "/" + std::string(9'000'000, 'a');
  const auto started = (*client)->start(request, answer);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().text(), HasSubstr("libcurl: "));
  EXPECT_FALSE(answer.over());
}

TEST(HttpClient, EndsARequestThatTakesTooLong) {
  FakeApiServer server([](const ApiRequest&) { return ApiAnswer{"", ApiAnswer::Then::hold}; });
  OutgoingRequest request;
  request.longest = std::chrono::milliseconds(50);
  EXPECT_TRUE(answer_to(access_to(server), request).failure());
}

TEST(HttpClient, BoundsAnAnswerThatItCollects) {
  FakeApiServer server([](const ApiRequest&) {
    return json_answer(200, std::string(AnswerCollector::kBytesMax + 1, 'x'));
  });
  const AnswerCollector answer = answer_to(access_to(server), {});
  EXPECT_TRUE(answer.failure());
  EXPECT_LE(answer.text().size(), AnswerCollector::kBytesMax);
}

// A request of its own connection, so that a watch without an answer delays no command.
TEST(HttpClient, SendsACommandBesideAnOpenWatch) {
  FakeApiServer server([](const ApiRequest& request) {
    return request.target == "/watch" ? watch_answer() : json_answer(200, "{}");
  });
  auto client = HttpClient::create(access_to(server));
  ASSERT_TRUE(client);
  AnswerCollector watch;
  AnswerCollector command;
  OutgoingRequest request;
  request.target = "/watch";
  const auto watching = (*client)->start(request, watch);
  ASSERT_TRUE(watching);
  ASSERT_TRUE(run_until(**client, [&] { return watch.head().code == 200; }));
  request.target = "/command";
  ASSERT_TRUE((*client)->start(request, command));
  ASSERT_TRUE(run_until(**client, [&] { return command.over(); }));
  EXPECT_FALSE(watch.over());
  (*client)->cancel(*watching);
  EXPECT_FALSE(watch.over());
}

class NoteSink final : public ObjectSink {
 public:
  void list_begins() override { log.emplace_back("begin"); }
  Result<void> listed(const text::JsonValue& object) override { return note(object); }
  void list_ends() override { log.emplace_back("end"); }
  Result<void> changed(ChangeType, const text::JsonValue& object) override { return note(object); }
  std::vector<std::string> log;

 private:
  Result<void> note(const text::JsonValue& object) {
    const text::JsonValue metadata = TRY(object.at("metadata"));
    log.push_back(TRY(metadata.text("uid")));
    return {};
  }
};

TEST(ObjectWatch, ListsWatchesAndResumes) {
  FakeApiServer server([watches = 0](const ApiRequest& request) mutable {
    if (request.target.find("watch=1") == std::string::npos) return json_answer(200, kPodList);
    return ++watches == 1 ? watch_answer(pod_event("ADDED", "b", 11)) : watch_answer();
  });
  NoteSink sink;
  ListWatch watch("/api/v1/pods", "spec.nodeName=n", sink, [] { return 0.0; });
  auto client = HttpClient::create(access_to(server));
  ASSERT_TRUE(client);
  const SystemClock clock;
  ObjectWatch objects(**client, watch, clock);
  const auto advance = [&] { objects.advance(); };
  const auto seen = [&](std::size_t count) {
    return run_until(
        **client, [&] { return sink.log.size() >= count; }, advance);
  };
  ASSERT_TRUE(seen(4));
  const std::string event = pod_event("MODIFIED", "c", 12);
  server.send_held(chunk(event.substr(0, 9)));
  server.send_held(chunk(event.substr(9)));
  ASSERT_TRUE(seen(5));
  EXPECT_TRUE(watch.state().connected);
  // In the middle of an object.
  server.send_held(chunk(pod_event("ADDED", "d", 13).substr(0, 20)));
  server.cut_held();
  ASSERT_TRUE(run_until(
      **client, [&] { return server.requests().size() == 3; }, advance));
  EXPECT_THAT(server.requests()[2].target, HasSubstr("resourceVersion=12&"));
  EXPECT_THAT(sink.log, ElementsAre("begin", "a", "end", "b", "c"));
  server.send_held(chunk(pod_event("ADDED", "d", 13)));
  ASSERT_TRUE(seen(6));
  server.send_held(kLastChunk);
  ASSERT_TRUE(run_until(
      **client, [&] { return server.requests().size() == 4; }, advance));
  EXPECT_THAT(server.requests()[3].target, HasSubstr("resourceVersion=13&"));
}

TEST(ObjectWatch, ReportsATokenThatCannotBeRead) {
  FakeApiServer server([](const ApiRequest&) { return json_answer(200, kPodList); });
  Access access = access_to(server);
  access.token_file = "/nowhere/token";
  NoteSink sink;
  ListWatch watch("/api/v1/pods", "", sink, [] { return 0.0; });
  auto client = HttpClient::create(access);
  ASSERT_TRUE(client);
  const SystemClock clock;
  ObjectWatch objects(**client, watch, clock);
  objects.advance();
  EXPECT_THAT(watch.state().problem, HasSubstr("/nowhere/token"));
  EXPECT_EQ(server.requests().size(), 0U);
}

}  // namespace
}  // namespace forestall::kubernetes
