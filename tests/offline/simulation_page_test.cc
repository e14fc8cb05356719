// SPDX-License-Identifier: Apache-2.0
#include "offline/simulation_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forestall::cli {
namespace {

using rebalance::SimulationPoint;
using rebalance::SimulationRun;
using testing::HasSubstr;
using testing::Not;

SimulationRun run_with(const std::string& name, std::uint64_t evictions, std::uint64_t kills) {
  SimulationRun run;
  run.name = name;
  run.points.emplace_back();
  run.points.push_back({.seconds = 3600, .evictions = evictions, .kills = kills});
  return run;
}

std::string section_of(const std::string& page, const std::string& title) {
  const auto start = page.find("<h2>" + title);
  return page.substr(start, page.find("</section>", start) - start);
}

TEST(SimulationPage, ComparesWithTheRunThatMovesNothing) {
  const std::vector<SimulationRun> runs{run_with("none", 5, 9), run_with("more", 7, 2)};
  const std::string page = simulation_page(subject_of({}), runs);
  EXPECT_THAT(page, HasSubstr("none</td><td>0</td><td>5</td><td>-</td><td>9</td><td>-</td>"));
  EXPECT_THAT(page, HasSubstr("more</td><td>0</td><td>7</td><td>-2</td><td>2</td><td>7</td>"));
}

TEST(SimulationPage, DrawsNegativeNumbersBelowZero) {
  const std::vector<SimulationRun> runs{run_with("none", 5, 9), run_with("more", 7, 2)};
  const std::string page = simulation_page(subject_of({}), runs);
  const std::string evictions = section_of(page, "Evictions by the kubelet avoided");
  // From -2 to 1: zero is at two thirds of the height.
  EXPECT_THAT(evictions, HasSubstr(R"(<line class="zero" x1="56" x2="548" y1="78.0" y2="78.0"/>)"));
  EXPECT_THAT(evictions, HasSubstr(R"(run0" points="56.0,78.0 548.0,78.0 ")"));
  EXPECT_THAT(evictions, HasSubstr(R"(run1" points="56.0,78.0 548.0,210.0 ")"));
  const std::string kills = section_of(page, "Kills by the kernel avoided");
  EXPECT_THAT(kills, Not(HasSubstr("zero")));
  EXPECT_THAT(kills, HasSubstr(R"(run0" points="56.0,210.0 548.0,210.0 ")"));
  EXPECT_THAT(kills, HasSubstr(R"(run1" points="56.0,210.0 548.0,36.8 ")"));
}

// Its numbers are not those of the policy.
TEST(SimulationPage, NamesTheErrorThatEndedPlans) {
  std::vector<SimulationRun> runs{run_with("none", 5, 9), run_with("<p>", 7, 2)};
  runs[1].error = "p/LowNodeUtilization: no node \"n\"";
  EXPECT_THAT(simulation_page(subject_of({}), runs),
              HasSubstr("An error ended plans of &lt;p&gt;: p/LowNodeUtilization: no node "
                        "&quot;n&quot;</strong>"));
}

// In hours it would have no number but 0.
TEST(SimulationPage, TimesOfAShortTraceAreMinutes) {
  const auto hot_section = [](std::int64_t seconds) {
    std::vector<SimulationRun> runs{run_with("none", 0, 0)};
    runs[0].points[1].seconds = seconds;
    return section_of(simulation_page(subject_of({}), runs), "Hot nodes");
  };
  EXPECT_THAT(hot_section(600), HasSubstr(R"(text-anchor="middle">4 min<)"));
  // At the edge it would be cut off.
  EXPECT_THAT(hot_section(600), HasSubstr(R"(<text x="548.0" y="234" text-anchor="end">10 min<)"));
  EXPECT_THAT(hot_section(3 * 3600), HasSubstr(">1 h<"));
}

// A trace does not have what would have happened: that is not 0.
TEST(SimulationPage, PrintsWhatIsUnknownAsUnknown) {
  SimulationRun run = run_with("none", 0, 0);
  for (SimulationPoint& each : run.points) {
    each.evictions.reset();
    each.kills.reset();
  }
  run.points[0].hot_nodes = 3;
  run.points[1].hot_nodes.reset();
  run.points[1].waiting = 2;
  run.hot_node_minutes.reset();
  run.unknown_node_minutes = 60;
  const std::vector<SimulationRun> runs{run, run};
  const SimulationSubject subject{.description = "A trace.", .notes = {"<cut>"}, .is_trace = true};
  const std::string page = simulation_page(subject, runs);
  EXPECT_THAT(page, HasSubstr("<p><strong>&lt;cut&gt;</strong></p>"));
  EXPECT_THAT(page,
              HasSubstr("none</td><td>unknown</td><td>unknown</td><td>unknown</td><td>-</td>"));
  EXPECT_THAT(page, HasSubstr("<td>unknown</td><td>unknown</td><td>0</td><td>0</td><td>0</td>"
                              "<td>2</td></tr>"));
  EXPECT_THAT(section_of(page, "Kills by the kernel avoided"), HasSubstr("<p>unknown</p>"));
  // The line ends before the unknown value.
  EXPECT_THAT(section_of(page, "Hot nodes"), HasSubstr(R"(run0" points="56.0,12.0 56.0,12.0 "/>)"));
}

SimulationRun uncertain_run(const std::string& name, double hot, double unknown) {
  SimulationRun run = run_with(name, 0, 0);
  run.hot_node_minutes = hot;
  run.unknown_node_minutes = unknown;
  run.compared_node_minutes = 180;
  run.compared_hot_node_minutes = 15;
  run.points[0] = {.hot_nodes = 4, .compared_nodes = 3, .compared_hot_nodes = 2};
  run.points[1] = {.seconds = 3600, .hot_nodes = 2, .compared_nodes = 3, .compared_hot_nodes = 1};
  if (unknown > 0) run.points[1].unknown_nodes = 3;
  return run;
}

// Nodes that are not measured any more are not shown as cool.
TEST(SimulationPage, ShowsWhatUnknownNodesMayAdd) {
  const std::vector<SimulationRun> runs{uncertain_run("none", 240, 0),
                                        uncertain_run("p", 120.5, 90.25)};
  const SimulationSubject trace{.description = "A trace.", .notes = {}, .is_trace = true};
  const std::string page = simulation_page(trace, runs);
  EXPECT_THAT(page, HasSubstr("none</td><td>240</td><td>15 of 180</td>"));
  EXPECT_THAT(page, HasSubstr("p</td><td>120.5 to 210.75</td><td>15 of 180</td>"));
  const std::string hot = section_of(page, "Hot nodes: less than");
  // From 4 to 2 nodes, and up to 5; the run without unknown nodes has no band.
  EXPECT_THAT(hot, HasSubstr(R"(<polygon class="band run1" )"
                             R"(points="56.0,51.6 548.0,12.0 548.0,130.8 56.0,51.6 "/>)"));
  EXPECT_THAT(hot, Not(HasSubstr("band run0")));
  EXPECT_THAT(hot, HasSubstr("<p>Shaded: nodes without a measurement"));
  EXPECT_THAT(section_of(page, "Hot nodes of those that every run measures"),
              HasSubstr(R"(run1" points="56.0,12.0 548.0,111.0 "/>)"));
  // A synthetic cluster has no unknown nodes.
  EXPECT_THAT(simulation_page(subject_of({}), runs), Not(HasSubstr("every run measures")));
}

}  // namespace
}  // namespace forestall::cli
