// SPDX-License-Identifier: Apache-2.0
// The gRPC API of a running agent: status, rankings, records and events of a real kill; and a
// socket that is taken, turned off or restricted. tests/service/agent_service_test.cc tests that
// other gRPC implementations understand it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "forestall/v1/service.pb.h"
#include "messages/recording_entries.h"
#include "recording/reader.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "wire/grpc_call.h"
#include "wire/grpc_stream.h"

namespace forestall::test::agent_api_test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using wire::GrpcStream;

constexpr Bytes kLimit = mib(192);
constexpr Bytes kThreshold = mib(64);

std::string config_of(const ScratchCgroup& scratch, const std::string& more = "") {
  return fmt::format(
      "evictionHard: {{}}\npods: {{enabled: false}}\nreleaseTimeout: 20s\n"
      "watch: [{{cgroup: {0}, available: {1}Mi}}]\n"
      "workloads: [{{cgroup: {0}/leak, name: leak}}, {{cgroup: {0}/calm, name: calm}}]\n{2}",
      scratch.path(), kThreshold.count >> 20, more);
}

std::string socket_of(const AgentRun& agent) {
  return agent.directory() / "forestall.sock";
}

template <typename Response, typename Request>
Response call(const std::string& socket, const std::string& method, const Request& request) {
  const auto reply = wire::grpc_call({socket}, "/forestall.v1.Agent/" + method,
                                     request.SerializeAsString(), seconds(30));
  EXPECT_TRUE(reply.ok()) << method << ": " << reply.message;
  Response response;
  EXPECT_TRUE(response.ParseFromString(reply.body));
  return response;
}

// The next message of a stream for which `wanted` is true.
template <typename Response, typename Predicate>
std::optional<Response> next(GrpcStream& stream, Predicate wanted, Duration patience = kPatience) {
  const MonotonicTime until = SystemClock().now() + patience;
  for (;;) {
    while (const auto message = stream.next()) {
      Response response;
      if (response.ParseFromString(*message) && wanted(response)) return response;
    }
    if (stream.end() || SystemClock().now() >= until) return std::nullopt;
    pollfd fd{stream.fd(), stream.events(), 0};
    ::poll(&fd, 1, 1000);
    stream.advance();
  }
}

class AgentApi : public testing::Test {
 protected:
  void SetUp() override {
    scratch_.limit(scratch_.path(), kLimit);
    leak_ = scratch_.child("leak");
    scratch_.child("calm");
  }
  // Starts an agent with a process of 8 MiB in the workload `leak`.
  void start_with_hog() {
    hog_.emplace(scratch_, leak_, mib(8));
    agent_.emplace(config_of(scratch_));
    ASSERT_FALSE(agent_->failure()) << agent_->failure()->text();
  }
  [[nodiscard]] std::string socket() const { return socket_of(*agent_); }
  void expect_refused(const v1::RankRequest& request, const std::string& value) const {
    const auto refused = wire::grpc_call({socket()}, "/forestall.v1.Agent/Rank",
                                         request.SerializeAsString(), seconds(30));
    EXPECT_EQ(refused.status, wire::GrpcStatus::invalid_argument);
    EXPECT_THAT(refused.message, HasSubstr(value));
  }
  void leak(Hog& hog) {
    hog.leak(kLimit - kThreshold + mib(8) - scratch_.usage(scratch_.path()), mib(2));
  }

  ScratchCgroup scratch_;
  std::string leak_;
  std::optional<Hog> hog_;
  std::optional<AgentRun> agent_;
};

TEST_F(AgentApi, ServesStatusAndRanking) {
  ASSERT_NO_FATAL_FAILURE(start_with_hog());
  struct stat file {};
  ASSERT_EQ(::stat(socket().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600U);
  const auto status = call<v1::GetStatusResponse>(socket(), "GetStatus", v1::GetStatusRequest());
  EXPECT_EQ(status.status().pid(), agent_->process().pid());
  const auto ranked = call<v1::RankResponse>(socket(), "Rank", v1::RankRequest());
  EXPECT_EQ(ranked.report().signal(), "memory.available");
  ASSERT_EQ(ranked.report().order_size(), 2);
  EXPECT_EQ(ranked.report().order(0).sample().workload().name(), "leak");
  EXPECT_GE(ranked.report().order(0).sample().usage_bytes(), mib(8).count);
  EXPECT_GT(ranked.read_at().seconds(), 1'600'000'000);
  v1::RankRequest nonsense;
  nonsense.set_signal("no.such");
  expect_refused(nonsense, "no.such");
}

TEST_F(AgentApi, RanksAsTheKernelDoesAndAddsTheSignalsOfTheSameReading) {
  ASSERT_NO_FATAL_FAILURE(start_with_hog());
  v1::RankRequest kernel;
  kernel.set_ranking("kernel");
  const auto ranked = call<v1::RankResponse>(socket(), "Rank", kernel);
  EXPECT_EQ(ranked.ranking(), "kernel");
  EXPECT_EQ(ranked.report().comparators(1), "kernel-badness");
  EXPECT_TRUE(ranked.report().order(0).key().has_badness());
  ASSERT_EQ(ranked.signals().signals_size(), 1);
  EXPECT_EQ(ranked.signals().signals(0).subject(), scratch_.path());
  EXPECT_FALSE(ranked.signals().signals(0).met());
  EXPECT_GT(ranked.signals().observation().node().capacity_bytes(), 0);
  EXPECT_EQ(ranked.signals().observation().workloads_size(), 0) << "they are in the report";
  EXPECT_EQ(call<v1::RankResponse>(socket(), "Rank", v1::RankRequest()).ranking(), "kubelet");
  v1::RankRequest nonsense;
  nonsense.set_ranking("by-size");
  expect_refused(nonsense, "by-size");
}

TEST_F(AgentApi, StreamsAKillAsItHappens) {
  ASSERT_NO_FATAL_FAILURE(start_with_hog());
  v1::WatchRecordsRequest acts;
  acts.set_acts_only(true);
  auto records = GrpcStream::open(socket(), "/forestall.v1.Agent/WatchRecords",
                                  acts.SerializeAsString(), seconds(5));
  auto events = GrpcStream::open(socket(), "/forestall.v1.Agent/WatchEvents", "", seconds(5));
  ASSERT_TRUE(records.ok() && events.ok());
  // The same thread serves this call after it has accepted both streams.
  (void)call<v1::GetStatusResponse>(socket(), "GetStatus", v1::GetStatusRequest());
  leak(*hog_);
  const auto begun = next<v1::WatchRecordsResponse>(
      **records, [](const auto& each) { return each.record().decision().evictions_size() > 0; });
  ASSERT_TRUE(begun) << agent_->process().log();
  EXPECT_FALSE(begun->record().has_outcome());
  ASSERT_TRUE(begun->record().has_begun());
  EXPECT_FALSE(begun->record().begun().dry_run());
  EXPECT_EQ(begun->record().begun().state(), v1::KillProgress::IN_FLIGHT);
  const auto ended = next<v1::WatchRecordsResponse>(
      **records, [](const auto& each) { return each.record().has_outcome(); });
  ASSERT_TRUE(ended) << agent_->process().log();
  EXPECT_EQ(ended->record().sequence(), begun->record().sequence());
  EXPECT_EQ(ended->record().outcome().state(), v1::KillProgress::RELEASED);
  const auto crossed = next<v1::WatchEventsResponse>(
      **events, [](const auto& each) { return each.event().has_threshold(); });
  ASSERT_TRUE(crossed);
  EXPECT_TRUE(crossed->event().threshold().met());
  EXPECT_EQ(crossed->event().threshold().subject(), scratch_.path());
  const auto decided = next<v1::WatchEventsResponse>(
      **events, [](const auto& each) { return !each.event().decision().victim().empty(); });
  ASSERT_TRUE(decided);
  EXPECT_EQ(decided->event().decision().victim(), "leak");
  EXPECT_EQ(decided->event().cgroup(), leak_);
  const auto outcome = next<v1::WatchEventsResponse>(
      **events, [](const auto& each) { return each.event().has_outcome(); });
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->event().outcome().sequence(), begun->record().sequence());
}

TEST_F(AgentApi, SecondAgentLogsThatTheSocketIsTakenAndGuardsWithoutIt) {
  AgentRun first(config_of(scratch_));
  ASSERT_FALSE(first.failure()) << first.failure()->text();
  Hog hog(scratch_, leak_, mib(8));
  AgentRun second(config_of(scratch_, fmt::format("apiSocket: {}\n", socket_of(first))));
  ASSERT_FALSE(second.failure()) << second.failure()->text();
  EXPECT_TRUE(second.process().wait_for_log(
      fmt::format("another agent (pid {}) listens", first.process().pid()),
      SystemClock().now() + kPatience))
      << second.process().log();
  EXPECT_THAT(second.process().log(), HasSubstr("no-api"));
  const auto status =
      call<v1::GetStatusResponse>(socket_of(first), "GetStatus", v1::GetStatusRequest());
  EXPECT_EQ(status.status().pid(), first.process().pid());
}

TEST_F(AgentApi, WithoutAnApiSocketTheAgentOpensNoUnixSocket) {
  AgentRun agent(config_of(scratch_, "apiSocket: off\n"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  for (const auto& each : std::filesystem::directory_iterator(agent.directory() / "")) {
    EXPECT_FALSE(each.is_socket() && each.path().filename() != "notify") << each.path();
  }
  const Ran ran = run_forestall({"status", "--run-dir", agent.directory() / ""});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.errors, HasSubstr("no agent listens at "));
  EXPECT_THAT(ran.errors, HasSubstr("with apiSocket: off it serves no status"));
}

TEST_F(AgentApi, StatusIsReadFromTheConfiguredSocket) {
  const TempTree directory;
  const std::string path = directory / "api.sock";
  AgentRun agent(config_of(scratch_, fmt::format("apiSocket: {}\n", path)));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const Ran ran = run_forestall({"status", "--socket", path});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr(fmt::format("pid {}", agent.process().pid())));
}

TEST_F(AgentApi, ServesOnlyTheConfiguredUsers) {
  const TempTree open_to_all;
  ASSERT_EQ(::chmod((open_to_all / "").c_str(), 0755), 0);
  const std::string path = open_to_all / "s";
  AgentRun agent(
      config_of(scratch_, fmt::format("apiSocket: {}\napiUsers: {{uids: [1234]}}\n", path)));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto call_as = [&](uid_t uid) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(2);
      const auto reply = wire::grpc_call({path}, "/forestall.v1.Agent/GetStatus", "", seconds(30));
      ::_exit(reply.ok() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(call_as(1234), 0);
  EXPECT_EQ(call_as(1235), 1);
}

TEST_F(AgentApi, StartsAndStopsARecording) {
  AgentRun agent(config_of(scratch_));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const std::string path = agent.directory() / "recording.fst";
  v1::StartRecordingRequest request;
  request.set_path("relative");
  const auto ask = [&](const std::string& method, const std::string& message) {
    return wire::grpc_call({socket_of(agent)}, "/forestall.v1.Agent/" + method, message,
                           seconds(30));
  };
  EXPECT_EQ(ask("StartRecording", request.SerializeAsString()).status,
            wire::GrpcStatus::invalid_argument);
  EXPECT_EQ(ask("StopRecording", "").status, wire::GrpcStatus::failed_precondition);
  request.set_path(path);
  const MonotonicTime asked = SystemClock().now();
  (void)call<v1::StartRecordingResponse>(socket_of(agent), "StartRecording", request);
  EXPECT_EQ(ask("StartRecording", request.SerializeAsString()).status,
            wire::GrpcStatus::failed_precondition);
  Hog hog(scratch_, leak_, mib(8));
  leak(hog);
  ASSERT_TRUE(agent.wait_kill()) << agent.process().log();
  const auto ended = call<v1::StopRecordingResponse>(socket_of(agent), "StopRecording",
                                                     v1::StopRecordingRequest());
  EXPECT_GT(ended.entries(), 0U);
  EXPECT_EQ(ended.lost_entries(), 0U);
  struct stat file {};
  ASSERT_EQ(::stat(path.c_str(), &file), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(file.st_size), ended.bytes());
  const auto reader = recording::Reader::open(path);
  ASSERT_TRUE(reader) << reader.error().text();
  const auto facts = messages::decode_facts(reader->header().facts);
  ASSERT_TRUE(facts) << facts.error().text();
  EXPECT_GE(facts->began, asked) << "the start of the recording, not of the agent";
  EXPECT_EQ(ask("StartRecording", request.SerializeAsString()).status,
            wire::GrpcStatus::already_exists);
}

// Another thread serves the calls.
TEST_F(AgentApi, CallsDoNotTriggerEvaluations) {
  AgentRun agent(config_of(scratch_));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto evaluations = [&] {
    return call<v1::GetStatusResponse>(socket_of(agent), "GetStatus", v1::GetStatusRequest())
        .status()
        .evaluations();
  };
  const std::uint64_t before = evaluations();
  for (int i = 0; i < 200; ++i) (void)evaluations();
  (void)call<v1::RankResponse>(socket_of(agent), "Rank", v1::RankRequest());
  // The agent evaluates every second, and more often after its start.
  EXPECT_LT(evaluations(), before + 50);
}

}  // namespace
}  // namespace forestall::test::agent_api_test
