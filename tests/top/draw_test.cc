// SPDX-License-Identifier: Apache-2.0
// The screen as a function of the picture: 3 and 300 workloads, 40x10 and 200x60, before and in an
// incident.
#include "top/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "top/example.h"
#include "top/once_text.h"

namespace forestall::top {
namespace {

using test::add_decision;
using test::add_processes;
using test::add_threshold;
using test::Drawing;
using test::example_report;
using test::kHardMet;
using test::kMib;
using test::kSoftMet;
using test::text_of;
using testing::HasSubstr;
using testing::Not;

// Line of the screen that contains this text; -1: none.
int line_with(const Screen& screen, const std::string& text) {
  for (int y = 0; y < screen.size().height; ++y) {
    if (screen.line(y).find(text) != std::string::npos) return y;
  }
  return -1;
}

Role role_at(const Screen& screen, const std::string& text) {
  const int y = line_with(screen, text);
  EXPECT_GE(y, 0) << text << "\n" << text_of(screen);
  if (y < 0) return Role::plain;
  const std::string line = screen.line(y);
  return screen.at(width_of(line.substr(0, line.find(text))), y).style.role;
}

TEST(Draw, ShowsACalmNode) {
  const Drawn drawn = Drawing(example_report(3)).draw(160, 30);
  const std::string text = text_of(drawn.screen);
  EXPECT_THAT(text, HasSubstr("agent 0.1.0 pid 812"));
  EXPECT_THAT(text, HasSubstr("7.2G of 16.0G used, 8.8G available"));
  EXPECT_THAT(text, HasSubstr("hard 100.0M"));
  EXPECT_THAT(text, HasSubstr("soft 1.5G"));
  EXPECT_THAT(text, HasSubstr("warning 1.1G"));
  EXPECT_THAT(text, HasSubstr("stalled memory"));
  EXPECT_THAT(text, HasSubstr("stalled cpu"));
  EXPECT_THAT(text, HasSubstr("1-3 of 3"));
  EXPECT_EQ(role_at(drawn.screen, "calm"), Role::good);
  EXPECT_EQ(drawn.layout.rows.size(), 3U);
  EXPECT_EQ(drawn.layout.order.front(), "/kubepods/pod0");
}

TEST(Draw, MarksTheNextVictimWithTheReason) {
  const Drawn drawn = Drawing(example_report(3)).draw(160, 30);
  const int y = drawn.layout.rows.front().y;
  EXPECT_EQ(drawn.screen.at(0, y).glyph, unicode_glyphs().next);
  EXPECT_EQ(drawn.screen.at(0, y).style.role, Role::bad);
  const std::string text = text_of(drawn.screen);
  EXPECT_THAT(text, HasSubstr("next victim: leak  no request, priority 0, 48.0M over; before "
                              "worker-1 by over-request"));
  EXPECT_THAT(text, HasSubstr("protected: static pod"));
}

TEST(Draw, ShowsGracePeriodsAndMetThresholds) {
  const Drawn soft = Drawing(example_report(3, kSoftMet)).draw(160, 30);
  EXPECT_EQ(role_at(soft.screen, "in grace 12 s of 30 s"), Role::warned);
  EXPECT_LT(line_with(soft.screen, "in grace"), line_with(soft.screen, "calm"))
      << "what needs attention comes first";
  const Drawn hard = Drawing(example_report(3, kHardMet)).draw(160, 30);
  EXPECT_EQ(role_at(hard.screen, "MET"), Role::bad);
}

TEST(Draw, ShowsARecedingThreshold) {
  internal::TopReport report = example_report(3);
  v1::Evidence& each = add_threshold(report, "memory.available", 500 * kMib, 700 * kMib);
  each.set_met(true);
  EXPECT_EQ(role_at(Drawing(report).draw(160, 30).screen, "recedes"), Role::warned);
}

TEST(Draw, SmallTerminalsShowTheMostImportant) {
  for (const auto& [width, height] : {std::pair{40, 10}, {80, 24}, {60, 14}, {30, 8}}) {
    const Drawn drawn = Drawing(example_report(300, kHardMet)).draw(width, height);
    const std::string text = text_of(drawn.screen);
    EXPECT_THAT(text, HasSubstr("memory")) << text;
    EXPECT_THAT(text, HasSubstr("leak")) << text;
    EXPECT_THAT(text, HasSubstr("MET")) << text;
    EXPECT_GE(drawn.layout.rows.size(), 2U) << text;
  }
}

// The line of a watched cgroup reads as a true statement about a named subject, at any width.
TEST(Draw, AThresholdNamesItsSubjectAndComparesTruthfullyAt80Columns) {
  internal::TopReport report = example_report(3);
  v1::Evidence& calm = add_threshold(report, "cgroupMemory.available", 64 * kMib, 255 * kMib);
  calm.set_subject("/sre");
  calm.set_capacity(256 * kMib);
  v1::Evidence& met = add_threshold(report, "cgroupMemory.available", 64 * kMib, 64 * kMib - 1);
  met.set_subject("/batch/a-service-with-a-name-that-is-longer-than-the-whole-line.service");
  const std::string at_80 = text_of(Drawing(report).draw(80, 30).screen);
  EXPECT_THAT(at_80, testing::ContainsRegex("/sre +cgroupMemory.available +255.0M >= 64.0M +calm"));
  EXPECT_THAT(at_80, testing::ContainsRegex("node +memory.available +8.8G >= 100.0M +calm"));
  EXPECT_THAT(at_80,
              testing::ContainsRegex("/batch/.*cgroupMemory.available +67108863 < 67108864 +MET"));
  const std::string at_100 = text_of(Drawing(report).draw(100, 30).screen);
  EXPECT_THAT(at_100, testing::ContainsRegex("/sre +cgroupMemory.available hard +255.0M >= 64.0M"));
  const std::string at_60 = text_of(Drawing(report).draw(60, 30).screen);
  EXPECT_THAT(at_60, testing::ContainsRegex("/sre +cgroup.* 255.0M >= 64.0M +calm"));
  const std::string at_40 = text_of(Drawing(report).draw(40, 30).screen);
  EXPECT_THAT(at_40, testing::ContainsRegex("calm +/sre 255.0M >= 64.0M"));
}

TEST(Draw, AThresholdInGraceFitsIn80Columns) {
  internal::TopReport report = example_report(3, kSoftMet);
  v1::Evidence& soft =
      add_threshold(report, "cgroupMemory.available", 300 * kMib, 255 * kMib, 30 * test::kSecondNs);
  soft.set_subject("/sre");
  EXPECT_THAT(text_of(Drawing(report).draw(80, 30).screen),
              testing::ContainsRegex("/sre +cgroupMemory.available +255.0M < 300.0M +"
                                     "(in )?grace 12 s of 30 s"));
}

TEST(Draw, NoSizeIsTooSmall) {
  for (int width = 0; width < 30; ++width) {
    for (int height = 0; height < 12; ++height) {
      Drawing drawing(example_report(3, kHardMet));
      (void)drawing.draw(width, height);
      drawing.view.help = true;
      (void)drawing.draw(width, height);
      drawing.view.help = false;
      drawing.view.opened = "/kubepods/pod0";
      (void)drawing.draw(width, height);
      add_processes(drawing.report, 0, 3);
      (void)drawing.draw(width, height);
    }
  }
}

TEST(Draw, ColumnsGiveWayFromTheLeastImportant) {
  Drawing drawing(example_report(3));
  const std::string narrow = text_of(drawing.draw(60, 30).screen);
  EXPECT_THAT(narrow, HasSubstr("working set"));
  EXPECT_THAT(narrow, HasSubstr("stall/s"));
  EXPECT_THAT(narrow, Not(HasSubstr("procs")));
  EXPECT_THAT(text_of(drawing.draw(200, 30).screen), HasSubstr("procs"));
}

// Without BPF stalls have no values, and the growth has their place.
TEST(Draw, AColumnWithoutValuesGivesWayToTheGrowth) {
  internal::TopReport report = example_report(3);
  EXPECT_THAT(text_of(Drawing(report).draw(80, 30).screen), Not(HasSubstr("change/s")));
  for (auto& each : *report.mutable_workloads()) each.clear_stall_ns_per_second();
  const std::string without = text_of(Drawing(report).draw(80, 30).screen);
  EXPECT_THAT(without, HasSubstr("change/s"));
  EXPECT_THAT(without, Not(HasSubstr("stall/s")));
}

TEST(Draw, ScrollsToTheRowThatIsSelected) {
  Drawing drawing(example_report(300));
  drawing.view.selected = "/kubepods/pod250";
  const Drawn drawn = drawing.draw(120, 40);
  const int y = line_with(drawn.screen, "worker-250 ");
  ASSERT_GE(y, 0) << text_of(drawn.screen);
  bool reversed = false;
  for (const Layout::Row& row : drawn.layout.rows) {
    if (row.path == "/kubepods/pod250") reversed = drawn.screen.at(5, row.y).style.reverse;
  }
  EXPECT_TRUE(reversed);
  EXPECT_THAT(text_of(drawn.screen), HasSubstr("number 251: worker-250"));
  EXPECT_THAT(text_of(drawn.screen), HasSubstr("of 300"));
}

TEST(Draw, SortsAndFilters) {
  Drawing drawing(example_report(300));
  drawing.view.sort = Column::stall;
  EXPECT_EQ(drawing.draw(120, 40).layout.order[1], "/kubepods/pod299");
  drawing.view.reversed = true;
  EXPECT_EQ(drawing.draw(120, 40).layout.order.back(), "/kubepods/pod0");
  drawing.view.filter = "KER-29";
  EXPECT_EQ(drawing.draw(120, 40).layout.order.size(), 11U);
  drawing.view.filter = "nothing like it";
  EXPECT_THAT(text_of(drawing.draw(120, 40).screen), HasSubstr("no workload matches the filter"));
}

TEST(Draw, ReportsThatThereIsNoAgent) {
  internal::TopReport report = example_report(3);
  report.clear_agent();
  report.set_agent_problem("none serves gRPC at /run/forestall/forestall.sock");
  const Drawn drawn = Drawing(report).draw(160, 30);
  EXPECT_EQ(role_at(drawn.screen, "no agent: observing only"), Role::warned);
  EXPECT_THAT(text_of(drawn.screen), HasSubstr("none serves gRPC"));
  EXPECT_THAT(Drawing(report).draw(40, 10).screen.line(0), HasSubstr("no agent"));
}

TEST(Draw, ShowsDecisionsNewestFirst) {
  internal::TopReport report = example_report(3);
  add_decision(report, "old");
  add_decision(report, "java", true);
  v1::StatusDecision& dry = add_decision(report, "new");
  dry.set_dry_run(true);
  const Drawn drawn = Drawing(report).draw(160, 40);
  const int newest = line_with(drawn.screen, "22:13:10 would evict new for the node");
  ASSERT_GE(newest, 0) << text_of(drawn.screen);
  EXPECT_EQ(line_with(drawn.screen, "the kernel's OOM killer killed java"), newest + 1);
  EXPECT_EQ(line_with(drawn.screen, "evicted old for the node, threshold-met: released, 512.0M"),
            newest + 2);
  EXPECT_EQ(role_at(drawn.screen, "the kernel's"), Role::bad);
}

TEST(Draw, MarksAnOldPicture) {
  Drawing drawing(example_report(3));
  const Drawn drawn = draw({drawing.report, drawing.history, drawing.view, ascii_glyphs(),
                            std::chrono::seconds(0), std::chrono::seconds(20)},
                           {160, 30});
  EXPECT_THAT(drawn.screen.line(0), HasSubstr("no sample for 20 s"));
}

TEST(Draw, UnknownIsNotZero) {
  internal::TopReport report = example_report(3);
  report.mutable_signals()->mutable_observation()->clear_node();
  auto& key = *report.mutable_workloads(2)->mutable_candidate()->mutable_key();
  key.set_measured(false);
  report.mutable_workloads(2)->clear_stall_ns_per_second();
  const std::string text = text_of(Drawing(report).draw(160, 30).screen);
  EXPECT_THAT(text, HasSubstr("could not be read"));
  EXPECT_THAT(text, HasSubstr("unknown"));
}

// A node that fills up, sampled each second.
Drawing filling_node(int samples) {
  internal::TopReport report = example_report(3);
  report.mutable_signals()->clear_signals();
  add_threshold(report, "memory.available", 4096 * kMib, 16384 * kMib);
  Drawing drawing(report);
  for (int i = 1; i < samples; ++i) {
    drawing.report.set_at_ns(report.at_ns() + i * test::kSecondNs);
    v1::Evidence& each = *drawing.report.mutable_signals()->mutable_signals(0);
    each.set_available((16384 - i * 2048) * kMib);
    each.set_met(each.available() < each.limit());
    drawing.history.add(drawing.report);
  }
  return drawing;
}

TEST(Draw, AThresholdHasAHistoryAndABarOfTheUseOfItsCapacity) {
  Drawing drawing = filling_node(7);
  for (const auto& [width, height] : {std::pair{80, 24}, {120, 40}}) {
    const Screen screen = drawing.draw(width, height).screen;
    const std::string line = screen.line(line_with(screen, "memory.available"));
    EXPECT_THAT(line, HasSubstr("4.0G >= 4.0G"));
    // The limit is reached, but not passed: the highest level is for what is met.
    EXPECT_THAT(line, testing::ContainsRegex(" ▁▂▃▄▅▆▇ \\[(█)+┃(░)+\\]$"));
  }
  drawing.ascii = true;
  const Screen screen = drawing.draw(80, 24).screen;
  EXPECT_THAT(screen.line(line_with(screen, "memory.available")),
              testing::ContainsRegex(R"( \.:-=\+\*# \[#+\|\.+\]$)"));
}

TEST(Draw, TheBarPassesItsMarkIfTheThresholdIsMet) {
  const Drawing drawing = filling_node(8);
  const Screen screen = drawing.draw(80, 24).screen;
  const std::string line = screen.line(line_with(screen, "memory.available"));
  EXPECT_THAT(line, HasSubstr("2.0G < 4.0G"));
  EXPECT_THAT(line, testing::ContainsRegex("▇█ \\[(█)+┃(█)+(░)+\\]$"));
}

TEST(Draw, AnUnknownThresholdIsUnknownAndLeavesAGapInTheHistory) {
  Drawing drawing = filling_node(3);
  const v1::Threshold threshold = drawing.report.signals().signals(0).threshold();
  internal::TopReport without = drawing.report;
  without.mutable_signals()->clear_signals();
  without.set_at_ns(drawing.report.at_ns() + test::kSecondNs);
  drawing.history.add(without);
  internal::UnknownThreshold& unknown = *without.add_unknown_thresholds();
  *unknown.mutable_threshold() = threshold;
  unknown.mutable_threshold()->mutable_limit()->set_fraction(0.1F);
  unknown.set_subject("node");
  unknown.set_reason("the node's memory could not be read");
  const Drawing now{without};
  for (const int width : {40, 80, 120}) {
    const Screen screen = now.draw(width, 24).screen;
    EXPECT_THAT(text_of(screen), HasSubstr("unknown, limit 10%"));
    EXPECT_EQ(role_at(screen, "unknown, limit"), Role::warned);
  }
  EXPECT_THAT(text_of(now.draw(120, 40).screen), HasSubstr("thresholds, 1 unknown"));
  drawing.report.set_at_ns(without.at_ns() + test::kSecondNs);
  drawing.history.add(drawing.report);
  EXPECT_THAT(text_of(drawing.draw(80, 24).screen), HasSubstr(" ▁▂▃?▃ ["));
}

TEST(Draw, MoreThresholdsAreShownIfTheTableLeavesRoom) {
  internal::TopReport few = example_report(3);
  internal::TopReport many = example_report(60);
  for (auto* each : {&few, &many}) {
    for (int i = 0; i < 3; ++i) {
      add_threshold(*each, "cgroupMemory.available", 64 * kMib, 255 * kMib)
          .set_subject("/watched" + std::to_string(i));
    }
  }
  const std::string all = text_of(Drawing(few).draw(80, 24).screen);
  EXPECT_THAT(all, HasSubstr("/watched2"));
  EXPECT_THAT(text_of(Drawing(many).draw(80, 24).screen), HasSubstr(" +2"));
}

TEST(Draw, TheMemoryBarIsNotColouredByADisk) {
  internal::TopReport report = example_report(3);
  add_threshold(report, "nodefs.available", 9000 * kMib, 100 * kMib);
  EXPECT_EQ(role_at(Drawing(report).draw(120, 30).screen, "8.8G available"), Role::good);
}

TEST(Draw, ShowsTheProcessesOfTheOpenedWorkload) {
  internal::TopReport report = example_report(3);
  internal::TopProcesses& list = add_processes(report, 0, 3);
  list.mutable_processes(0)->set_command("java\x1b[31m");
  list.mutable_processes(1)->set_oom_score_adj(-1000);
  list.mutable_processes(1)->clear_points();
  list.mutable_processes(1)->set_kernel_protection("its oom_score_adj is -1000");
  list.mutable_processes(2)->set_dying(true);
  Drawing drawing(report);
  drawing.view.opened = "/kubepods/pod0";
  for (const auto& [width, height] : {std::pair{80, 24}, {120, 40}}) {
    const Drawn drawn = drawing.draw(width, height);
    const std::string text = text_of(drawn.screen);
    EXPECT_THAT(text, HasSubstr("processes of leak"));
    EXPECT_THAT(text, HasSubstr("3 processes, 3.0M RSS, 0 swap  /kubepods/pod0"));
    EXPECT_THAT(text, testing::ContainsRegex("1000 java\\?\\[31m +3.0M +0 +0 +768 +2 no\n"));
    EXPECT_THAT(text, testing::ContainsRegex("1001 task-1 +2.0M +0 -1000 +- +2 from the ke"));
    EXPECT_THAT(text, HasSubstr("exiting; no"));
    EXPECT_THAT(text, HasSubstr("1-3 of 3"));
    EXPECT_THAT(text, HasSubstr("Esc workloads"));
    EXPECT_THAT(text, Not(HasSubstr("worker-1")));
    EXPECT_EQ(drawn.layout.processes, 3);
  }
}

TEST(Draw, ProcessesOfAProtectedWorkloadAreProtected) {
  internal::TopReport report = example_report(3);
  add_processes(report, 1, 1);
  Drawing drawing(report);
  drawing.view.opened = "/kubepods/pod1";
  EXPECT_THAT(text_of(drawing.draw(80, 24).screen), HasSubstr("2 static pod"));
}

TEST(Draw, ScrollsProcessesAndCountsThoseNotShown) {
  internal::TopReport report = example_report(3);
  add_processes(report, 0, 60).set_count(90);
  Drawing drawing(report);
  drawing.view.opened = "/kubepods/pod0";
  drawing.view.process_scroll = 1000;
  const Drawn drawn = drawing.draw(80, 24);
  const std::string text = text_of(drawn.screen);
  EXPECT_THAT(text, HasSubstr("90 processes"));
  EXPECT_THAT(text, HasSubstr("the 60 largest, 30 not shown"));
  EXPECT_THAT(text, HasSubstr("task-59"));
  EXPECT_THAT(text, HasSubstr("-60 of 60"));
  EXPECT_EQ(drawn.layout.process_scroll, 60 - drawn.layout.page);
}

TEST(Draw, ProcessesThatAreNotReadAreNotZero) {
  Drawing drawing(example_report(3));
  drawing.view.opened = "/kubepods/pod0";
  EXPECT_THAT(text_of(drawing.draw(80, 24).screen), HasSubstr("sampling"));
  drawing.view.paused = true;
  EXPECT_THAT(text_of(drawing.draw(80, 24).screen), HasSubstr("paused: p resumes"));
  add_processes(drawing.report, 0, 0).set_problem("its cgroup was removed");
  const std::string text = text_of(drawing.draw(80, 24).screen);
  EXPECT_THAT(text, HasSubstr("processes unknown: its cgroup was removed"));
  EXPECT_THAT(text, Not(HasSubstr("0 processes")));
}

TEST(Draw, TheHelpFitsIn24Lines) {
  Drawing drawing(example_report(3));
  drawing.view.help = true;
  const std::string text = text_of(drawing.draw(80, 24).screen);
  EXPECT_THAT(text, HasSubstr("the processes of the selected workload; Esc: back"));
  EXPECT_THAT(text, HasSubstr("change/s"));
}

TEST(Draw, AsciiStaysAscii) {
  Drawing drawing(example_report(300, kSoftMet));
  drawing.ascii = true;
  add_processes(drawing.report, 0, 30);
  drawing.view.opened = "/kubepods/pod0";
  for (const char each : text_of(drawing.draw(200, 60).screen)) {
    EXPECT_TRUE(each == '\n' || (each >= ' ' && each < 0x7F));
  }
  drawing.view.opened.reset();
  for (const char each : text_of(drawing.draw(200, 60).screen)) {
    EXPECT_TRUE(each == '\n' || (each >= ' ' && each < 0x7F));
  }
}

TEST(History, ShowsTheGrowthRateOfAWorkload) {
  Drawing drawing(example_report(3));
  EXPECT_EQ(drawing.history.change_of("/kubepods/pod0"), std::nullopt) << "seen once only";
  internal::TopReport later = drawing.report;
  later.set_at_ns(later.at_ns() + 2 * test::kSecondNs);
  later.mutable_workloads(0)->mutable_candidate()->mutable_key()->set_usage(68 * kMib);
  drawing.history.add(later);
  drawing.history.add(later);
  EXPECT_DOUBLE_EQ(*drawing.history.change_of("/kubepods/pod0"), 10.0 * kMib);
  EXPECT_DOUBLE_EQ(*drawing.history.change_of("/kubepods/pod1"), 0);
  ASSERT_NE(drawing.history.pressure("memory"), nullptr);
  EXPECT_EQ(drawing.history.pressure("memory")->some.size(), 2U);
  EXPECT_EQ(drawing.history.pressure("irq"), nullptr);
}

// A workload that stops growing shows it with the next sample.
TEST(History, TheChangeIsThatOfTheLastInterval) {
  Drawing drawing(example_report(3));
  internal::TopReport later = drawing.report;
  const auto sample = [&](std::int64_t after_ns, std::int64_t usage) {
    later.set_at_ns(later.at_ns() + after_ns);
    later.mutable_workloads(0)->mutable_candidate()->mutable_key()->set_usage(usage);
    drawing.history.add(later);
    return *drawing.history.change_of("/kubepods/pod0");
  };
  EXPECT_DOUBLE_EQ(sample(test::kSecondNs, 148 * kMib), 100.0 * kMib);
  EXPECT_DOUBLE_EQ(sample(test::kSecondNs, 148 * kMib), 0);
  EXPECT_DOUBLE_EQ(sample(test::kSecondNs, 138 * kMib), -10.0 * kMib);
  // Short intervals are joined to about a second: the kernel counts in batches of pages.
  EXPECT_DOUBLE_EQ(sample(test::kSecondNs / 2, 143 * kMib), 10.0 * kMib * -5 / 15);
  EXPECT_DOUBLE_EQ(sample(test::kSecondNs / 2, 148 * kMib), 10.0 * kMib);
}

TEST(Once, PrintsEverythingAsPlainText) {
  internal::TopReport report = example_report(3, kSoftMet);
  add_decision(report, "old");
  const Drawing drawing(report);
  const std::string text = once_text(report, drawing.history);
  EXPECT_THAT(text, HasSubstr("agent 0.1.0, pid 812"));
  EXPECT_THAT(text, HasSubstr("memory: 14.8G of 16.0G used, 1.2G available"));
  EXPECT_THAT(text, HasSubstr("stalled for memory: some 36.0%, full 16.0%"));
  EXPECT_THAT(text, HasSubstr("in grace 12 s of 30 s"));
  EXPECT_THAT(text, HasSubstr("next victim: leak"));
  EXPECT_THAT(text, HasSubstr("22:13:10 evicted old"));
  for (const char each : text) EXPECT_TRUE(each == '\n' || (each >= ' ' && each < 0x7F));
}

}  // namespace
}  // namespace forestall::top
