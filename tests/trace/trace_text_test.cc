// SPDX-License-Identifier: Apache-2.0
// The text of trace events, and the sums of their summaries.
#include "trace/trace_text.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.h"
#include "trace/trace_output.h"
#include "trace/trace_summary.h"

namespace forestall::trace {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

v1::Event span_event() {
  v1::Event event;
  event.set_cgroup_id(7);
  event.set_cgroup("/pods/a");
  v1::SpanEvent& span = *event.mutable_span();
  span.set_kind(v1::MEMCG_RECLAIM);
  span.set_length_ns(1'234'567);
  span.set_scanned_pages(300);
  span.set_reclaimed_pages(200);
  span.set_pid(42);
  span.set_name("worker");
  return event;
}

std::string line(const v1::Event& event, bool color = false) {
  std::string out;
  TraceText(color).append(event, out);
  return out;
}

TEST(ShortLength, HasThreeOrFourDigits) {
  EXPECT_EQ(short_length(0), "0 ns");
  EXPECT_EQ(short_length(999), "999 ns");
  EXPECT_EQ(short_length(1000), "1.00 us");
  EXPECT_EQ(short_length(9'994), "9.99 us");
  EXPECT_EQ(short_length(9'996), "10.0 us");
  EXPECT_EQ(short_length(99'940), "99.9 us");
  EXPECT_EQ(short_length(99'960), "100 us");
  EXPECT_EQ(short_length(999'499), "999 us");
  EXPECT_EQ(short_length(999'500), "1.00 ms");
  EXPECT_EQ(short_length(1'500'000'000), "1.50 s");
  EXPECT_EQ(short_length(3'600'000'000'000), "3600 s");
}

TEST(TraceText, ColumnsStandUnderTheirNames) {
  std::string head;
  TraceText(false).head(head);
  const std::string text = line(span_event());
  for (const auto& [name, value] : {std::pair{"PID", "42"}, {"FREED", "200"}, {"SCANNED", "300"}}) {
    // Right-aligned: they end in the same column.
    EXPECT_EQ(head.find(name) + std::string(name).size(),
              text.find(value) + std::string(value).size())
        << name << "\n"
        << head << text;
  }
  EXPECT_EQ(head.find("NAME"), text.find("worker"));
  EXPECT_EQ(head.find("CGROUP"), text.find("/pods/a"));
  EXPECT_THAT(text, HasSubstr("1.23 ms"));
}

TEST(TraceText, ALimitThatIsAnothersIsNamed) {
  v1::Event event = span_event();
  event.mutable_span()->set_subject_id(8);
  event.mutable_span()->set_subject("/pods");
  EXPECT_THAT(line(event), EndsWith("/pods/a for /pods\n"));
  event.mutable_span()->set_subject_id(7);
  EXPECT_THAT(line(event), EndsWith("/pods/a\n"));
}

TEST(TraceText, WithoutANameTheNumberStands) {
  v1::Event event = span_event();
  event.clear_cgroup();
  EXPECT_THAT(line(event), EndsWith("cgroup:7\n"));
  event.clear_cgroup_id();
  EXPECT_THAT(line(event), EndsWith("node\n"));
}

// Users choose the names of cgroups and processes, which must not control the terminal.
TEST(TraceText, NamesCannotControlTheTerminal) {
  v1::Event event = span_event();
  event.set_cgroup("/a\x1b[2J\nforged");
  event.mutable_span()->set_name("\x1b]0;x\x07");
  const std::string text = line(event);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_THAT(text, HasSubstr("?[2J?forged"));
}

TEST(TraceText, NamesCannotTurnALineRound) {
  v1::Event event = span_event();
  event.set_cgroup("/a\u202eb\u2066c\u200fd\u061ce\u00e9");
  EXPECT_THAT(line(event), EndsWith("/a?b?c?d?e\u00e9\n"));
}

TEST(TraceText, LongWaitsStandOut) {
  v1::Event event = span_event();
  EXPECT_THAT(line(event, true), Not(HasSubstr("\x1b[1;31m")));
  event.mutable_span()->set_length_ns(200'000'000);
  EXPECT_THAT(line(event, true), HasSubstr("\x1b[1;31m"));
  EXPECT_THAT(line(event, false), Not(HasSubstr("\x1b")));
}

TEST(TraceText, ReportsUnavailableEvents) {
  v1::Event event;
  const auto sight = [&](const char* kind, bool seen, const char* evidence) {
    v1::TraceSight& out = *event.mutable_trace_start()->add_sights();
    out.set_kind(kind);
    out.set_seen(seen);
    out.set_evidence(evidence);
  };
  sight("usage", true, "files, every second");
  sight("pressure", true, "files, every second; 88 cgroups beyond the first 512 are not");
  sight("stall", false, "fentry is refused");
  EXPECT_THAT(line(event), Not(HasSubstr("usage")));
  EXPECT_THAT(line(event), HasSubstr("traced in part: pressure: files, every second; 88 cgroups"));
  EXPECT_THAT(line(event), HasSubstr("not traced: stall: fentry is refused\n"));
}

TEST(TraceText, EveryKindHasALine) {
  const auto* whats = v1::Event::descriptor()->FindOneofByName("what");
  for (int i = 0; i < whats->field_count(); ++i) {
    v1::Event event;
    event.GetReflection()->MutableMessage(&event, whats->field(i));
    EXPECT_NE(line(event), "") << whats->field(i)->name();
  }
}

std::string histogram(const std::vector<std::uint64_t>& buckets) {
  std::string out;
  append_histogram(buckets, out);
  return out;
}

TEST(Histogram, IsAsBpftracePrintsOne) {
  EXPECT_EQ(histogram({}), "");
  EXPECT_EQ(histogram({0, 0, 0}), "");
  EXPECT_EQ(histogram({0, 0, 4, 0, 2, 0}),
            "[2, 4)                  4 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n"
            "[4, 8)                  0 |                                                    |\n"
            "[8, 16)                 2 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |\n");
  std::vector<std::uint64_t> large(ABI_TRACE_BUCKETS);
  large[0] = 1;
  large[11] = 1;
  large[21] = 1;
  large.back() = 1;
  const std::string text = histogram(large);
  EXPECT_THAT(text, HasSubstr("[0, 1) "));
  EXPECT_THAT(text, HasSubstr("[1K, 2K) "));
  EXPECT_THAT(text, HasSubstr("[1M, 2M) "));
  EXPECT_THAT(text, HasSubstr("[64M, ...) "));
}

// ---- lines that usage crosses -----------------------------------------------------------------

class UsageLinesTest : public testing::Test {
 protected:
  // The lines that a reading of so many percent crosses: +line or -line.
  std::vector<int> read(int percent) {
    sources::PressureReading reading;
    reading.cgroup = {7};
    reading.usage = Bytes{percent * 1000};
    reading.limit = Bytes{100'000};
    std::vector<int> crossed;
    lines_.read(reading, [&](const v1::UsageEvent& event) {
      crossed.push_back(event.rises() ? event.percent() : -event.percent());
    });
    return crossed;
  }
  UsageLines lines_;
};

TEST_F(UsageLinesTest, ReportsEachLineOnceAndIgnoresNoise) {
  using testing::ElementsAre;
  EXPECT_THAT(read(80), ElementsAre()) << "how it is at first is no news";
  EXPECT_THAT(read(91), ElementsAre(90));
  EXPECT_THAT(read(89), ElementsAre()) << "hardly below";
  EXPECT_THAT(read(91), ElementsAre());
  EXPECT_THAT(read(87), ElementsAre(-90));
  EXPECT_THAT(read(10), ElementsAre(-75, -50));
  EXPECT_THAT(read(100), ElementsAre(50, 75, 90, 95, 99));
}

TEST_F(UsageLinesTest, OneThatIsGoneIsForgotten) {
  EXPECT_TRUE(read(80).empty());
  sources::PressureReading reading;
  reading.cgroup = {7};
  lines_.keep({reading});
  EXPECT_THAT(read(91), testing::ElementsAre(90)) << "it was kept";
  lines_.keep({});
  EXPECT_TRUE(read(10).empty()) << "as if it were new";
}

TEST_F(UsageLinesTest, WithoutALimitThereIsNoLine) {
  sources::PressureReading reading;
  reading.usage = mib(1);
  int calls = 0;
  for (int i = 0; i < 2; ++i) lines_.read(reading, [&](const v1::UsageEvent&) { ++calls; });
  EXPECT_EQ(calls, 0);
}

// A pager that shows its first screen and waits: Ctrl-C must still end the trace.
void write_to_closed_pipe(int writer) {
  const UniqueFd stop(::eventfd(1, EFD_CLOEXEC));
  TraceOutput output(writer, stop.get(), TraceFormat::json, false);
  v1::Event event;
  event.set_cgroup(std::string(1000, 'x'));
  for (int i = 0; i < 1000; ++i) output.write(event);
  EXPECT_FALSE(output.flush());
  EXPECT_FALSE(output.failure());
  // The mode of the file, which other processes share, is unchanged.
  EXPECT_EQ(::fcntl(writer, F_GETFL) & O_NONBLOCK, 0);
}

TEST(TraceOutput, AReaderThatStandsStillDoesNotKeepItFromItsEnd) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  write_to_closed_pipe(writer.get());
}

TEST(TraceOutput, NorDoesOneAtTheOtherEndOfASocket) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  write_to_closed_pipe(writer.get());
}

TEST(TraceOutput, DistinguishesAFullDiskFromAClosedReader) {
  const UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  TraceOutput to_disk(full.get(), stop.get(), TraceFormat::json, false);
  to_disk.write(span_event());
  EXPECT_FALSE(to_disk.flush());
  ASSERT_TRUE(to_disk.failure());
  EXPECT_EQ(to_disk.failure()->code, ENOSPC);

  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd writer(ends[1]);
  UniqueFd(ends[0]).reset();
  TraceOutput to_closed_pipe(writer.get(), stop.get(), TraceFormat::json, false);
  to_closed_pipe.write(span_event());
  EXPECT_FALSE(to_closed_pipe.flush());
  EXPECT_FALSE(to_closed_pipe.failure());
}

}  // namespace
}  // namespace forestall::trace
