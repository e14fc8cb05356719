// SPDX-License-Identifier: Apache-2.0
// The agent's service through grpc++, another implementation of gRPC, and by reflection alone, as
// grpcurl uses it.
#include "service/agent_service.h"

#include <gmock/gmock.h>
#include <google/protobuf/dynamic_message.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <set>
#include <thread>

#include "forestall/v1/service.grpc.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "support/temp_tree.h"
#include "wire/grpc_server.h"

namespace forestall::service {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
namespace rpc = ::grpc::reflection::v1;

// Returns its result on command.
class ToyRankService final : public RankService {
 public:
  ToyRankService() : done_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  bool request_ranking(const v1::RankRequest& request) override {
    if (asked_.exchange(true)) return false;
    signal_ = request.signal();
    if (!held_) finish();
    return true;
  }
  [[nodiscard]] int fd() const override { return done_.get(); }
  std::optional<Result<v1::RankResponse>> answer() override {
    eventfd_t ignored = 0;
    if (eventfd_read(done_.get(), &ignored) != 0) return std::nullopt;
    asked_ = false;
    if (signal_ == "nonsense") return Result<v1::RankResponse>(Error{EINVAL, "unknown signal"});
    v1::RankResponse response;
    response.mutable_report()->set_signal(signal_);
    return Result<v1::RankResponse>(response);
  }
  // Any thread.
  void hold() { held_ = true; }
  void let_go() {
    held_ = false;
    finish();
  }
  void finish() { eventfd_write(done_.get(), 1); }
  [[nodiscard]] bool asked() const { return asked_; }

 private:
  const UniqueFd done_;
  std::atomic<bool> asked_{false};
  std::atomic<bool> held_{false};
  std::string signal_;
};

// Has made one file and refuses another.
class ToyRecordingService final : public RecordingService {
 public:
  Result<void> start(const v1::StartRecordingRequest& request) override {
    if (recording_) return Error{EALREADY, "a recording is being made"};
    if (request.path() == "/there") return Error{EEXIST, "/there"};
    recording_ = true;
    return {};
  }
  Result<v1::StopRecordingResponse> stop() override {
    if (!std::exchange(recording_, false)) return Error{ENODATA, "no recording"};
    v1::StopRecordingResponse response;
    response.set_entries(3);
    return response;
  }

 private:
  bool recording_ = false;
};

// Has as many pods as the last list, and no writer but the first one.
class ToyPodReceiver final : public PodReceiver {
 public:
  Result<std::size_t> update(const v1::UpdatePodsRequest& request) override {
    ++calls;
    if (request.writer() != 1) return Error{EAGAIN, "list all pods again"};
    if (request.pods_size() == 3) return Error{EINVAL, "three are too many"};
    return static_cast<std::size_t>(request.pods_size());
  }
  int calls = 0;
};

class AgentServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto broadcast = exports::EventBroadcast::create();
    ASSERT_TRUE(broadcast.ok());
    broadcast_ = std::move(*broadcast);
    AgentServices services;
    services.status = [] {
      v1::AgentStatus status;
      status.set_version("7");
      return status;
    };
    services.broadcast = broadcast_.get();
    services.drops = &drops_;
    services.rank = &rank_;
    services.recording = &recording_;
    services.pods = &pods_;
    services.pod_writers = {4711};
    auto service = AgentService::create(services);
    ASSERT_TRUE(service.ok()) << service.error().text();
    service_ = std::move(*service);
    auto server = wire::GrpcServer::start(directory_ / "s", {}, *service_, counts_);
    ASSERT_TRUE(server.ok()) << server.error().text();
    server_ = std::move(*server);
    channel_ =
        grpc::CreateChannel("unix:" + (directory_ / "s"), grpc::InsecureChannelCredentials());
    stub_ = v1::Agent::NewStub(channel_);
  }

  static Record record_of(std::uint64_t sequence, Action action) {
    Record record;
    record.sequence = sequence;
    record.decision.action = action;
    record.decision.reason = Reason::threshold_met;
    return record;
  }

  test::TempTree directory_;
  exports::DropCounts drops_;
  wire::GrpcCounts counts_;
  ToyRankService rank_;
  ToyRecordingService recording_;
  ToyPodReceiver pods_;
  std::unique_ptr<exports::EventBroadcast> broadcast_;
  std::unique_ptr<AgentService> service_;
  std::unique_ptr<wire::GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Agent::Stub> stub_;
};

// A stream that the agent has accepted.
template <typename Reader>
void wait_accepted(Reader& reader) {
  reader->WaitForInitialMetadata();
}

TEST_F(AgentServiceTest, ReturnsItsStatus) {
  grpc::ClientContext call;
  v1::GetStatusResponse response;
  const grpc::Status status = stub_->GetStatus(&call, {}, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.status().version(), "7");
}

TEST_F(AgentServiceTest, TakesPods) {
  const auto update = [this](std::uint64_t writer, int pods) {
    grpc::ClientContext call;
    v1::UpdatePodsRequest request;
    request.set_writer(writer);
    for (int i = 0; i < pods; ++i) request.add_pods()->set_uid(std::to_string(i));
    v1::UpdatePodsResponse response;
    const grpc::Status status = stub_->UpdatePods(&call, request, &response);
    return std::pair(status.error_code(), response.pods());
  };
  EXPECT_EQ(update(1, 2), std::pair(grpc::StatusCode::OK, std::uint64_t{2}));
  EXPECT_EQ(update(1, 3).first, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(update(2, 1).first, grpc::StatusCode::FAILED_PRECONDITION);
}

// The facts of pods decide what is killed.
TEST_F(AgentServiceTest, TakesPodsFromTheirWritersOnly) {
  server_.reset();  // this thread is the service's
  v1::UpdatePodsRequest request;
  request.set_writer(1);
  const auto status_for = [&](const wire::GrpcPeer& peer) {
    const auto call = service_->begin("/forestall.v1.Agent/UpdatePods", peer);
    call->take(request.SerializeAsString());
    call->requests_end();
    return call->next().status;
  };
  EXPECT_EQ(status_for({false, 1000}), wire::GrpcStatus::permission_denied);
  EXPECT_EQ(status_for({false, std::nullopt}), wire::GrpcStatus::permission_denied);
  EXPECT_EQ(pods_.calls, 0);
  EXPECT_EQ(status_for({false, 4711}), wire::GrpcStatus::ok);
  EXPECT_EQ(status_for({true, 0}), wire::GrpcStatus::ok);
  EXPECT_EQ(pods_.calls, 2);
}

TEST_F(AgentServiceTest, ManyRequestAtOnce) {
  std::vector<std::thread> clients;
  std::atomic<int> answered{0};
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        grpc::ClientContext call;
        call.set_wait_for_ready(true);
        v1::GetStatusResponse response;
        if (stub_->GetStatus(&call, {}, &response).ok()) ++answered;
      }
    });
  }
  for (std::thread& each : clients) each.join();
  EXPECT_EQ(answered, 160);
}

TEST_F(AgentServiceTest, RanksOneAtATime) {
  v1::RankRequest request;
  request.set_signal("memory.available");
  v1::RankResponse response;
  {
    grpc::ClientContext call;
    const grpc::Status status = stub_->Rank(&call, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.report().signal(), "memory.available");
  }
  rank_.hold();
  std::thread first([&] {
    grpc::ClientContext call;
    v1::RankResponse answer;
    EXPECT_TRUE(stub_->Rank(&call, request, &answer).ok());
  });
  while (!rank_.asked()) std::this_thread::yield();
  grpc::ClientContext call;
  EXPECT_EQ(stub_->Rank(&call, request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  rank_.finish();
  first.join();
}

TEST_F(AgentServiceTest, UnreadRankingsDoNotAccumulate) {
  server_.reset();  // this thread is the service's
  const auto request_ranking = [this] {
    const auto call = service_->begin("/forestall.v1.Agent/Rank", {});
    call->take("");
    service_->take_news();
    return call->next();
  };
  std::vector<wire::GrpcFrame> unread;
  for (std::size_t i = 0; i < AgentService::kRankingsUnread; ++i) {
    unread.push_back(request_ranking().frame);
    ASSERT_NE(unread.back(), nullptr);
  }
  EXPECT_EQ(request_ranking().status, wire::GrpcStatus::resource_exhausted);
  unread.pop_back();
  EXPECT_NE(request_ranking().frame, nullptr);
}

TEST_F(AgentServiceTest, DropsTheRankingOfACancelledCall) {
  rank_.hold();
  v1::RankRequest request;
  request.set_signal("given.up");
  v1::RankResponse response;
  {
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    EXPECT_EQ(stub_->Rank(&call, request, &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  rank_.let_go();
  request.set_signal("nonsense");
  grpc::Status status;
  // The first result may still be unread.
  do {
    grpc::ClientContext call;
    status = stub_->Rank(&call, request, &response);
  } while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "unknown signal");
}

TEST_F(AgentServiceTest, RecordsOneAtATime) {
  const auto start = [this](const std::string& path) {
    grpc::ClientContext call;
    v1::StartRecordingRequest request;
    request.set_path(path);
    v1::StartRecordingResponse response;
    return stub_->StartRecording(&call, request, &response).error_code();
  };
  v1::StopRecordingResponse ended;
  const auto stop = [&] {
    grpc::ClientContext call;
    return stub_->StopRecording(&call, {}, &ended).error_code();
  };
  EXPECT_EQ(stop(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(start("/there"), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(start("/new"), grpc::StatusCode::OK);
  EXPECT_EQ(start("/new"), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(stop(), grpc::StatusCode::OK);
  EXPECT_EQ(ended.entries(), 3U);
}

// A client that may watch the agent must not make it write files.
TEST_F(AgentServiceTest, OnlyItsOwnerRecords) {
  for (const char* method : {"StartRecording", "StopRecording"}) {
    const auto call = service_->begin(std::string("/forestall.v1.Agent/") + method, {false});
    ASSERT_NE(call, nullptr);
    call->take("");
    call->requests_end();
    const wire::GrpcStep step = call->next();
    EXPECT_TRUE(step.over);
    EXPECT_EQ(step.status, wire::GrpcStatus::permission_denied);
  }
}

TEST_F(AgentServiceTest, StreamsRecords) {
  grpc::ClientContext all_call;
  grpc::ClientContext acts_call;
  v1::WatchRecordsRequest acts_only;
  acts_only.set_acts_only(true);
  const auto all = stub_->WatchRecords(&all_call, {});
  const auto acts = stub_->WatchRecords(&acts_call, acts_only);
  wait_accepted(all);
  wait_accepted(acts);
  broadcast_->write(record_of(1, Action::none));
  broadcast_->write(record_of(2, Action::kill));
  v1::WatchRecordsResponse next;
  ASSERT_TRUE(all->Read(&next));
  EXPECT_EQ(next.record().sequence(), 1U);
  ASSERT_TRUE(all->Read(&next));
  EXPECT_EQ(next.record().sequence(), 2U);
  ASSERT_TRUE(acts->Read(&next));
  EXPECT_EQ(next.record().sequence(), 2U);
  EXPECT_EQ(next.record().decision().action(), v1::Decision::KILL);
  all_call.TryCancel();
  acts_call.TryCancel();
  EXPECT_FALSE(all->Read(&next));
  EXPECT_EQ(all->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// Of a client that was away, such as a process that was started again.
TEST_F(AgentServiceTest, StreamsRecentKillsFirst) {
  for (std::uint64_t sequence = 1; sequence <= 2; ++sequence) {
    Record record = record_of(sequence, Action::kill);
    record.begun = BegunKill{sequence == 1, KillState::in_flight};  // the first is a dry run
    broadcast_->write(record);
  }
  {
    // The server has accepted them.
    grpc::ClientContext other;
    v1::GetStatusResponse response;
    ASSERT_TRUE(stub_->GetStatus(&other, {}, &response).ok());
  }
  grpc::ClientContext call;
  v1::WatchRecordsRequest request;
  request.set_recent_kills_ns(Duration(std::chrono::minutes(1)).count());
  const auto records = stub_->WatchRecords(&call, request);
  v1::WatchRecordsResponse next;
  ASSERT_TRUE(records->Read(&next));
  EXPECT_EQ(next.record().sequence(), 2U);
  broadcast_->write(record_of(3, Action::none));
  ASSERT_TRUE(records->Read(&next));
  EXPECT_EQ(next.record().sequence(), 3U);
  call.TryCancel();
}

TEST_F(AgentServiceTest, StreamsEventsOfTheRequestedKinds) {
  grpc::ClientContext call;
  v1::WatchEventsRequest request;
  request.add_kinds(v1::Event::EVALUATION);
  request.add_kinds(v1::Event::DECISION);
  const auto events = stub_->WatchEvents(&call, request);
  wait_accepted(events);
  Observation observation;
  Decision decision;
  decision.reason = Reason::in_grace;
  broadcast_->evaluated({observation, decision, MonotonicTime()});
  broadcast_->write(record_of(3, Action::kill));
  v1::WatchEventsResponse next;
  ASSERT_TRUE(events->Read(&next));
  EXPECT_EQ(next.event().evaluation().reason(), v1::Decision::IN_GRACE);
  ASSERT_TRUE(events->Read(&next));
  EXPECT_EQ(next.event().decision().sequence(), 3U);
  call.TryCancel();
}

// Unread messages are kept up to a limit; lost ones are counted per client.
TEST_F(AgentServiceTest, ReportsLostMessagesToASlowReader) {
  grpc::ClientContext call;
  const auto records = stub_->WatchRecords(&call, {});
  wait_accepted(records);
  Record large = record_of(0, Action::kill);
  large.observation.notes.push_back({std::string(100'000, 'x'), "large"});
  constexpr std::uint64_t kAll = 400;
  for (std::uint64_t i = 1; i <= kAll; ++i) {
    large.sequence = i;
    broadcast_->write(large);
    // The server has accepted it.
    grpc::ClientContext other;
    v1::GetStatusResponse response;
    ASSERT_TRUE(stub_->GetStatus(&other, {}, &response).ok());
  }
  std::uint64_t seen = 0;
  std::uint64_t lost = 0;
  std::uint64_t last = 0;
  v1::WatchRecordsResponse next;
  while (last < kAll && records->Read(&next)) {
    if (next.has_lost()) {
      EXPECT_EQ(next.lost().where(), "reader");
      lost += next.lost().count();
    } else {
      EXPECT_EQ(next.record().sequence(), seen + lost + 1);
      last = next.record().sequence();
      ++seen;
    }
  }
  EXPECT_EQ(seen + lost, kAll);
  EXPECT_GT(lost, 0U);
  EXPECT_EQ(drops_.dropped, lost);
  call.TryCancel();
}

TEST_F(AgentServiceTest, NonsenseIsAnInvalidArgument) {
  grpc::GenericStub generic(channel_);
  for (const std::string method : {"GetStatus", "Rank", "WatchRecords", "WatchEvents"}) {
    grpc::ClientContext call;
    grpc::CompletionQueue queue;
    grpc::Slice slice(std::string("\xff\xff\xff", 3));
    grpc::ByteBuffer bytes(&slice, 1);
    auto reader = generic.PrepareUnaryCall(&call, "/forestall.v1.Agent/" + method, bytes, &queue);
    reader->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    reader->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
  }
  grpc::ClientContext call;
  v1::GetStatusResponse response;
  EXPECT_TRUE(stub_->GetStatus(&call, {}, &response).ok());
}

// ---- reflection -----------------------------------------------------------------------------

// Does what grpcurl does: requests services and files, without other knowledge.
class Reflector {
 public:
  // v1alpha has the same messages under another name.
  Reflector(const std::shared_ptr<grpc::Channel>& channel, const std::string& package)
      : path_("/" + package + ".ServerReflection/ServerReflectionInfo"),
        method_(path_.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, channel),
        stream_(grpc::internal::ClientReaderWriterFactory<
                rpc::ServerReflectionRequest, rpc::ServerReflectionResponse>::Create(channel.get(),
                                                                                     method_,
                                                                                     &call_)) {}

  rpc::ServerReflectionResponse request_ranking(const rpc::ServerReflectionRequest& request) {
    rpc::ServerReflectionResponse response;
    EXPECT_TRUE(stream_->Write(request));
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }
  rpc::ServerReflectionResponse symbol(const std::string& name) {
    rpc::ServerReflectionRequest request;
    request.set_file_containing_symbol(name);
    return request_ranking(request);
  }
  grpc::Status finish() {
    stream_->WritesDone();
    return stream_->Finish();
  }

 private:
  grpc::ClientContext call_;
  const std::string path_;
  const grpc::internal::RpcMethod method_;
  const std::unique_ptr<
      grpc::ClientReaderWriter<rpc::ServerReflectionRequest, rpc::ServerReflectionResponse>>
      stream_;
};

class ReflectionTest : public AgentServiceTest, public testing::WithParamInterface<const char*> {};

TEST_P(ReflectionTest, ListsTheServices) {
  Reflector reflector(channel_, GetParam());
  rpc::ServerReflectionRequest request;
  request.set_list_services("*");
  std::set<std::string> names;
  const auto answer = reflector.request_ranking(request);
  for (const auto& each : answer.list_services_response().service()) {
    names.insert(each.name());
  }
  EXPECT_THAT(names,
              UnorderedElementsAre("forestall.v1.Agent", "grpc.reflection.v1.ServerReflection",
                                   "grpc.reflection.v1alpha.ServerReflection"));
  EXPECT_TRUE(reflector.finish().ok());
}

// Every listed service can be described from the returned files, in an otherwise empty pool.
TEST_P(ReflectionTest, HandsOutFilesThatStandAlone) {
  for (const std::string service : {"forestall.v1.Agent", "grpc.reflection.v1.ServerReflection",
                                    "grpc.reflection.v1alpha.ServerReflection"}) {
    Reflector reflector(channel_, GetParam());
    google::protobuf::SimpleDescriptorDatabase files;
    const auto answer = reflector.symbol(service);
    ASSERT_TRUE(answer.has_file_descriptor_response()) << answer.ShortDebugString();
    for (const std::string& each : answer.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      ASSERT_TRUE(file.ParseFromString(each));
      EXPECT_TRUE(files.Add(file)) << file.name() << " twice";
    }
    google::protobuf::DescriptorPool pool(&files);
    const auto* found = pool.FindServiceByName(service);
    ASSERT_NE(found, nullptr) << service;
    EXPECT_GT(found->method_count(), 0);
    EXPECT_TRUE(reflector.finish().ok());
  }
}

// A call made only from what reflection returned.
TEST_P(ReflectionTest, IsEnoughToMakeACall) {
  Reflector reflector(channel_, GetParam());
  google::protobuf::SimpleDescriptorDatabase files;
  const auto described = reflector.symbol("forestall.v1.Agent.GetStatus");
  for (const std::string& each : described.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(each));
    files.Add(file);
  }
  google::protobuf::DescriptorPool pool(&files);
  const auto* method = pool.FindMethodByName("forestall.v1.Agent.GetStatus");
  ASSERT_NE(method, nullptr);
  google::protobuf::DynamicMessageFactory factory(&pool);
  const std::unique_ptr<google::protobuf::Message> response(
      factory.GetPrototype(method->output_type())->New());
  grpc::GenericStub generic(channel_);
  grpc::ClientContext call;
  grpc::CompletionQueue queue;
  grpc::Slice slice{std::string()};
  grpc::ByteBuffer bytes(&slice, 1);
  auto reader = generic.PrepareUnaryCall(&call, "/forestall.v1.Agent/GetStatus", bytes, &queue);
  reader->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  reader->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  ASSERT_TRUE(status.ok()) << status.error_message();
  grpc::Slice whole;
  ASSERT_TRUE(answer.DumpToSingleSlice(&whole).ok());
  ASSERT_TRUE(response->ParseFromArray(whole.begin(), static_cast<int>(whole.size())));
  EXPECT_THAT(response->ShortDebugString(), HasSubstr("version: \"7\""));
}

TEST_P(ReflectionTest, ReportsUnknownSymbols) {
  Reflector reflector(channel_, GetParam());
  EXPECT_EQ(reflector.symbol("no.such.Thing").error_response().error_code(), 5);
  rpc::ServerReflectionRequest request;
  request.set_file_by_filename("no/such.proto");
  EXPECT_EQ(reflector.request_ranking(request).error_response().error_code(), 5);
  request.set_all_extension_numbers_of_type("forestall.v1.Record");
  EXPECT_EQ(reflector.request_ranking(request).all_extension_numbers_response().base_type_name(),
            "forestall.v1.Record");
  request.mutable_file_containing_extension()->set_containing_type("forestall.v1.Record");
  EXPECT_EQ(reflector.request_ranking(request).error_response().error_code(), 5);
  EXPECT_EQ(reflector.request_ranking({}).error_response().error_code(), 3);
  request.set_file_by_filename("forestall/v1/service.proto");
  const auto answer = reflector.request_ranking(request);
  EXPECT_EQ(answer.original_request().file_by_filename(), "forestall/v1/service.proto");
  EXPECT_GT(answer.file_descriptor_response().file_descriptor_proto_size(), 5);
}

INSTANTIATE_TEST_SUITE_P(Packages, ReflectionTest,
                         testing::Values("grpc.reflection.v1", "grpc.reflection.v1alpha"),
                         [](const auto& of) {
                           return std::string(of.param).ends_with("alpha") ? "v1alpha" : "v1";
                         });

}  // namespace
}  // namespace forestall::service
