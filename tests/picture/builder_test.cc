// SPDX-License-Identifier: Apache-2.0
// A whole incident as a picture: its contents, its marks for missing data, its size.
#include "picture/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "messages/json.h"
#include "offline/recording_picture.h"
#include "offline/report_text.h"
#include "picture/incident.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using picture::Bounds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class PictureTest : public testing::Test {
 protected:
  internal::Picture picture_of(const Incident& incident, const Bounds& bounds = {}) {
    write_incident(file_, incident);
    return read(bounds);
  }
  internal::Picture read(const Bounds& bounds = {}) {
    auto picture = cli::picture_of_recording(file_, bounds);
    EXPECT_TRUE(picture) << picture.error().text();
    return picture ? std::move(*picture) : internal::Picture();
  }

  TempTree tree_;
  const std::string file_ = tree_ / "incident.fst";
};

const internal::Moment* find(const internal::Picture& picture, internal::Moment::Kind kind) {
  for (const internal::Moment& moment : picture.moments()) {
    if (moment.kind() == kind) return &moment;
  }
  return nullptr;
}

TEST_F(PictureTest, ContainsAWholeIncident) {
  const internal::Picture picture = picture_of({});
  EXPECT_EQ(picture.origin().node(), "worker-3.example.net");
  EXPECT_EQ(picture.origin().file(), "incident.fst");
  EXPECT_THAT(picture.remarks(), testing::IsEmpty());
  EXPECT_EQ(picture.summary().kills(), 1U);
  EXPECT_EQ(picture.summary().kernel_ooms(), 1U);
  EXPECT_EQ(picture.summary().median_to_signal_ns(), 360'000);
  EXPECT_NEAR(static_cast<double>(picture.to_us() - picture.from_us()), 1020e6, 10e6);

  ASSERT_EQ(picture.gauges_size(), 1);
  const internal::Gauge& gauge = picture.gauges(0);
  EXPECT_EQ(gauge.signal(), "memory.available");
  EXPECT_EQ(gauge.unit(), internal::Gauge::BYTES);
  EXPECT_EQ(gauge.thresholds_size(), 2);
  EXPECT_LT(gauge.least(), mib(512).count);
  EXPECT_EQ(gauge.table().lines(0).name(), "available");

  const internal::Moment* kill = find(picture, internal::Moment::KILL);
  ASSERT_NE(kill, nullptr);
  EXPECT_EQ(kill->victim(), "shop/catalog");
  EXPECT_EQ(kill->record().outcome().state(), v1::KillProgress::RELEASED);
  EXPECT_EQ(kill->record().decision().considered_size(), 3);
  EXPECT_EQ(kill->stages_size(), 7);
  EXPECT_EQ(find(picture, internal::Moment::KERNEL_OOM)->victim(), "convert");
  // The kill is placed where the memory is free again.
  EXPECT_NEAR(static_cast<double>(kill->at_us()), static_cast<double>(gauge.least_at_us()), 1e6);
  EXPECT_GT(picture.pressure().at_us_size(), 100);
  ASSERT_EQ(picture.workload_names_size(), 3);
  EXPECT_EQ(picture.workload_names(0), "shop/catalog");
}

TEST_F(PictureTest, SpansShowMetThresholdsAndGracePeriods) {
  const internal::Picture picture = picture_of({});
  bool grace = false;
  bool met = false;
  bool condition = false;
  for (const internal::Span& span : picture.spans()) {
    EXPECT_LE(span.from_us(), span.to_us());
    grace |= span.kind() == internal::Span::GRACE && span.name() == "memory.available<1536Mi";
    met |= span.kind() == internal::Span::MET && span.name() == "memory.available<512Mi";
    condition |= span.kind() == internal::Span::CONDITION && span.name() == "MemoryPressure";
  }
  EXPECT_TRUE(grace);
  EXPECT_TRUE(met);
  EXPECT_TRUE(condition);
}

TEST_F(PictureTest, ThreeHundredWorkloadsAreTwelveAndTheOthers) {
  Incident incident;
  incident.workloads = 300;
  const internal::Picture picture = picture_of(incident);
  EXPECT_EQ(picture.workload_names_size(), 12);
  EXPECT_EQ(picture.workloads_left_out(), 288U);
  ASSERT_EQ(picture.workloads().lines_size(), 13);
  EXPECT_EQ(picture.workloads().lines(12).name(), "others");
  const internal::Moment* kill = find(picture, internal::Moment::KILL);
  EXPECT_EQ(kill->record().decision().considered_size(), 32);
  EXPECT_EQ(kill->considered_left_out(), 268U);
  EXPECT_LT(messages::to_json(picture, messages::JsonStyle::line).size(), std::size_t{3} << 20);
}

TEST_F(PictureTest, ADryRunShowsNoKill) {
  Incident incident;
  incident.dry_run = true;
  const internal::Picture picture = picture_of(incident);
  EXPECT_TRUE(picture.origin().dry_run());
  EXPECT_EQ(picture.summary().kills(), 0U);
  EXPECT_GT(picture.summary().would_kills(), 0U);
  EXPECT_FALSE(picture.summary().has_median_to_signal_ns());
}

TEST_F(PictureTest, ShowsATruncatedRecordingUpToItsEndWithANote) {
  const internal::Picture whole = picture_of({});
  const auto size = std::filesystem::file_size(file_);
  std::int64_t reached = whole.to_us();
  for (const std::uintmax_t part : {size * 9 / 10, size / 2, size / 4}) {
    std::filesystem::resize_file(file_, part);
    const internal::Picture cut = read();
    ASSERT_GT(cut.remarks_size(), 0);
    EXPECT_THAT(cut.remarks(0), HasSubstr("truncated"));
    EXPECT_LE(cut.to_us(), reached);
    EXPECT_EQ(cut.from_us(), whole.from_us());
    reached = cut.to_us();
  }
}

TEST_F(PictureTest, IncrementalUpdatesGiveTheSamePicture) {
  picture::Builder builder(Bounds::of_agent());
  builder.anchor(from_ns(0), 1'000'000'000'000, true);
  picture::Cursor cursor;
  std::vector<std::int64_t> times;
  for (int i = 0; i < 50; ++i) {
    Record record;
    record.observation.at = from_ns(i * 1'000'000'000LL);
    Evidence evidence;
    evidence.subject = "node";
    evidence.capacity = 1000;
    evidence.available = 1000 - i;
    evidence.limit = binary(100);
    record.decision.evidence = {evidence};
    builder.evaluation(0, record);
    if (i % 7 != 0) continue;
    const internal::Picture part = builder.since(cursor);
    EXPECT_EQ(part.continued(), i > 0);
    const auto& at = part.gauges(0).table().at_us();
    times.insert(times.end(), at.begin(), at.end());
  }
  picture::Cursor all;
  const internal::Picture whole = builder.since(all);
  ASSERT_EQ(times.size(), 50U);
  EXPECT_THAT(whole.gauges(0).table().at_us(), testing::ElementsAreArray(times));
}

TEST_F(PictureTest, AnAgentsPictureStaysSmall) {
  picture::Builder builder(Bounds::of_agent());
  builder.anchor(from_ns(0), 0, true);
  for (int i = 0; i < 20'000; ++i) {
    Record record;
    record.sequence = static_cast<std::uint64_t>(i);
    record.observation.at = from_ns(i * 300'000'000LL);
    std::vector<WorkloadSample> samples;
    for (int w = 0; w < 5; ++w) {
      Evidence evidence;
      evidence.subject = "/w" + std::to_string((i + w) % 500);
      evidence.cgroup = {7};
      evidence.available = i % 100;
      evidence.limit = binary(50);
      evidence.met = i % 3 == 0;
      record.decision.evidence.push_back(evidence);
      WorkloadSample sample;
      sample.workload.path = evidence.subject;
      sample.usage = mib(i % 1000);
      samples.push_back(sample);
    }
    record.observation.workloads = samples;
    builder.evaluation(0, record);
    builder.record(0, record);
    builder.pressure({record.observation.at, Duration(i * 1000), Duration(i * 500),
                      static_cast<std::uint64_t>(i), 0, 0});
  }
  picture::Cursor all;
  const internal::Picture picture = builder.since(all);
  EXPECT_LT(picture.ByteSizeLong(), std::size_t{1} << 20);
  EXPECT_LE(picture.moments_size(), 48);
  EXPECT_GT(picture.moments_left_out(), 0U);
  EXPECT_GT(picture.gauges_left_out(), 0U);
}

Record kill_of(const std::string& path, std::uint64_t sequence) {
  Record record;
  record.sequence = sequence;
  record.decision.action = Action::kill;
  record.decision.considered.emplace_back().sample.workload.path = path;
  record.decision.evictions.emplace_back();
  return record;
}

// If there are more kills than the picture keeps, each counts once, although it is recorded twice.
TEST_F(PictureTest, CountsOmissions) {
  picture::Builder builder(Bounds::of_agent());
  builder.anchor(from_ns(0), 0, true);
  constexpr std::uint64_t kKills = 100;
  for (std::uint64_t i = 0; i < kKills; ++i) {
    Record record = kill_of("/w", i);
    builder.record(0, record);
    record.outcome.emplace().freed = mib(1);
    builder.record(0, record);
  }
  Record kernels;
  kernels.sequence = kKills;
  kernels.oom_kill.emplace();
  builder.record(0, kernels);
  picture::Cursor all;
  const internal::Picture picture = builder.since(all);
  EXPECT_LT(picture.moments_size(), 100);
  EXPECT_EQ(picture.summary().kills(), kKills);
  EXPECT_EQ(picture.summary().freed_bytes(), mib(kKills).count);
  EXPECT_EQ(picture.summary().kernel_ooms(), 1U);
}

// An agent that is stopped records nothing: neither its gauges nor the workloads are drawn on.
TEST_F(PictureTest, LinesEndWhereTheAgentDidNotRun) {
  picture::Builder builder{Bounds()};
  builder.anchor(from_ns(0), 0, true);
  builder.set_interval(std::chrono::seconds(1));
  std::uint64_t scanned = 0;
  for (const int second : {1, 2, 3, 12, 13}) {
    Record record;
    record.observation.at = from_ns(second * 1'000'000'000LL);
    Evidence& evidence = record.decision.evidence.emplace_back();
    evidence.subject = "node";
    evidence.available = 100;
    evidence.limit = binary(50);
    WorkloadSample sample;
    sample.workload.path = "/w";
    sample.usage = mib(second);
    builder.evaluation(0, record);
    builder.workload_sample(record.observation.at, {sample});
    builder.pressure({record.observation.at, {}, {}, scanned += 100, 0, 0});
  }
  const internal::Picture picture = builder.picture();
  ASSERT_EQ(picture.spans_size(), 1);
  EXPECT_EQ(picture.spans(0).kind(), internal::Span::LOST);
  EXPECT_EQ(picture.spans(0).from_us(), 3'000'000);
  EXPECT_EQ(picture.spans(0).to_us(), 12'000'000);
  EXPECT_EQ(picture.gauges(0).table().lines(0).runs_size(), 2);
  EXPECT_EQ(picture.workloads().lines(0).runs_size(), 2);
  EXPECT_EQ(picture.workloads().lines(0).runs(0).values_size(), 3);
  EXPECT_EQ(picture.reclaim().lines(0).runs_size(), 2);
}

// A kill where no threshold evicts is not one that the agent came too late for.
TEST_F(PictureTest, CountsKernelKillsElsewhereApart) {
  picture::Builder builder{Bounds()};
  builder.anchor(from_ns(0), 0, true);
  for (const Inaction inaction : {Inaction::not_watched, Inaction::warn_only, Inaction::stopped}) {
    Record record;
    record.sequence = static_cast<std::uint64_t>(inaction);
    record.oom_kill.emplace().inaction = inaction;
    builder.record(0, record);
  }
  EXPECT_EQ(builder.picture().summary().kernel_ooms(), 3U);
  EXPECT_EQ(builder.picture().summary().kernel_ooms_elsewhere(), 2U);
}

// A cgroup's name may be any bytes, and the kernel cuts a process's name within a character.
// forestall-plot reads the picture as protobuf, which accepts UTF-8 only.
TEST_F(PictureTest, NamesThatAreNoUtf8CanBeReadAgain) {
  picture::Builder builder{Bounds()};
  builder.anchor(from_ns(0), 0, true);
  const std::string path = "/w\xff";
  Record evaluation;
  evaluation.observation.at = from_ns(1'000'000);
  Evidence& evidence = evaluation.decision.evidence.emplace_back();
  evidence.subject = path;
  evidence.cgroup = {7};
  evidence.limit = binary(50);
  evidence.met = true;
  WorkloadSample sample;
  sample.workload.path = sample.workload.name = path;
  sample.usage = mib(1);
  evaluation.observation.workloads = {sample};
  builder.evaluation(0, evaluation);
  Record kill = kill_of(path, 1);
  kill.decision.considered.front().sample = sample;
  builder.record(0, kill);
  Record kernels;
  kernels.sequence = 2;
  kernels.oom_kill.emplace().event.at = from_ns(2'000'000);
  std::string("worker-\xe5\xb7\xa5\xe4\xbd").copy(kernels.oom_kill->event.comm.data(), 15);
  builder.record(0, kernels);
  const internal::Picture picture = builder.picture();
  ASSERT_EQ(picture.moments_size(), 2);
  EXPECT_EQ(picture.moments(0).victim(), "/w\xef\xbf\xbd");
  internal::Picture read;
  EXPECT_TRUE(read.ParseFromString(picture.SerializeAsString()));
}

// Counts before the start of the recording are no pressure; counters restart at a boot.
TEST_F(PictureTest, PressureIsTheDifferenceOfCounters) {
  picture::Builder builder{Bounds()};
  builder.anchor(from_ns(0), 0, true);
  builder.pressure({from_ns(1'000'000'000), Duration(5'000'000), {}, 100, 50, 1});
  builder.pressure({from_ns(2'000'000'000), Duration(105'000'000), {}, 1100, 850, 3});
  builder.anchor(from_ns(0), 2'500'000'000, true);
  builder.pressure({from_ns(1'000'000'000), Duration(1), {}, 0, 0, 0});
  const internal::Picture picture = builder.picture();
  ASSERT_EQ(picture.pressure().at_us_size(), 1);
  EXPECT_EQ(picture.pressure().lines(0).name(), "some");
  EXPECT_THAT(picture.pressure().lines(0).runs(0).values(), ElementsAre(10'000));  // 10 %
  EXPECT_EQ(picture.pressure().lines(1).runs_size(), 0) << "`full` is not known";
  EXPECT_THAT(picture.reclaim().lines(0).runs(0).values(), ElementsAre(1000));
  EXPECT_THAT(picture.reclaim().lines(1).runs(0).values(), ElementsAre(800));
  EXPECT_THAT(picture.reclaim().lines(2).runs(0).values(), ElementsAre(2000));
}

// A restarted agent numbers its evaluations from 1 on.
TEST_F(PictureTest, ARecordRefersToAnEvaluationOfItsRun) {
  picture::Builder builder{Bounds()};
  for (const std::uint64_t first : {1000UL, 1UL}) {
    builder.anchor(from_ns(0), 0, true);
    Record record;
    record.decision.action = Action::kill;
    record.decision.considered.resize(1);
    record.decision.considered[0].sample.workload.name = "of " + std::to_string(first);
    record.decision.evictions.resize(1);
    builder.evaluation(first, record);
    record.decision.considered.clear();
    record.sequence = 1;
    record.wall_time_ns = first == 1 ? 2'000'000 : 1'000'000;
    builder.record(first, record);
  }
  const internal::Picture picture = builder.picture();
  ASSERT_EQ(picture.moments_size(), 2);
  EXPECT_EQ(picture.moments(0).victim(), "of 1000");
  EXPECT_EQ(picture.moments(1).victim(), "of 1");
}

TEST_F(PictureTest, SpansStayFewWhateverIsMetAtOnce) {
  picture::Spans spans(8);
  Decision decision;
  for (int i = 0; i < 100; ++i) {
    Evidence evidence;
    evidence.subject = "/w" + std::to_string(i);
    evidence.cgroup = {7};
    evidence.met = true;
    decision.evidence.push_back(evidence);
  }
  spans.take(1, decision);
  internal::Picture picture;
  spans.put(picture, 0);
  EXPECT_EQ(picture.spans_size(), 4);
}

TEST_F(PictureTest, TheTicketTextIsCompleteAndEscapesNames) {
  Incident incident;
  incident.evil_names = true;
  const std::string text = cli::report_text(picture_of(incident));
  EXPECT_THAT(text, HasSubstr("# Forestall: worker-3.example.net"));
  EXPECT_THAT(text, HasSubstr("| killed by Forestall | 1 ("));
  EXPECT_THAT(text, HasSubstr("memory.available of node below 512Mi"));
  EXPECT_THAT(text, HasSubstr("## Kernel OOM kills"));
  EXPECT_THAT(text, HasSubstr("not-watched"));
  EXPECT_THAT(text, HasSubstr("victim |"));
  EXPECT_THAT(text, Not(HasSubstr("<script>")));
  EXPECT_THAT(text, Not(HasSubstr("<b>")));
  EXPECT_THAT(text, Not(HasSubstr("<img")));
}

// xterm interprets U+009B as ESC [.
TEST(ReportText, ContainsNoTerminalControls) {
  internal::Picture picture;
  picture.mutable_origin()->set_node(
      "a\xc2\x9b"
      "2Jb\x1b[0mc");
  const std::string text = cli::report_text(picture);
  EXPECT_THAT(text, HasSubstr("# Forestall: a?2Jb?"));
  EXPECT_THAT(text, Not(HasSubstr("\xc2\x9b")));
}

// The first one is the headline of the page.
TEST(PictureGauges, TheSubjectNearestToItsThresholdIsFirst) {
  picture::Builder builder(Bounds::of_agent());
  builder.anchor(from_ns(0), 0, true);
  Record record;
  const auto add = [&](Signal signal, const std::string& subject, std::int64_t available) {
    Evidence& evidence = record.decision.evidence.emplace_back();
    evidence.threshold.signal = signal;
    evidence.subject = subject;
    evidence.capacity = 10'000;
    evidence.available = available;
    evidence.limit = binary(100);
  };
  add(Signal::nodefs_available, "node", 200);
  add(Signal::memory_available, "node", 5000);
  add(Signal::cgroup_memory_available, "/far", 9000);
  add(Signal::cgroup_memory_available, "/near", 300);
  const auto order = [&] {
    record.observation.at += std::chrono::seconds(1);
    builder.evaluation(0, record);
    picture::Cursor all;
    const internal::Picture picture = builder.since(all);
    std::vector<std::string> subjects;
    for (const internal::Gauge& each : picture.gauges()) {
      subjects.push_back(each.signal() + " " + each.subject());
    }
    return subjects;
  };
  EXPECT_THAT(order(), ElementsAre("cgroupMemory.available /near", "memory.available node",
                                   "cgroupMemory.available /far", "nodefs.available node"));
  record.decision.evidence[0].available = 90;
  EXPECT_EQ(order().front(), "nodefs.available node") << "it crossed its threshold";
}

}  // namespace
}  // namespace forestall::test
