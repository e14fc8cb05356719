// SPDX-License-Identifier: Apache-2.0
#include "cli/container_pressure_status.h"

#include <gtest/gtest.h>

#include <string>

namespace forestall::cli {
namespace {

TEST(ContainerPressureText, ListsWhatIsPressedOrLifted) {
  v1::ContainerPressureStatus status;
  status.set_mode("enforce");
  status.set_watched(2);
  status.set_lifts(1);
  status.set_reclaimed_bytes(3 << 20);
  v1::PressedCgroup& pressed = *status.add_pressed();
  pressed.set_subject("ns/web/app");
  pressed.set_cause("own-limit");
  pressed.set_stage("reclaim");
  pressed.set_high_events(12.04);
  pressed.set_pressed_ns(2'000'000'000);
  pressed.set_result("nothing\nreclaimed");
  v1::PressedCgroup& lifted = *status.add_pressed();
  lifted.set_subject("ns/db/app");
  lifted.set_cause("none");
  lifted.set_stage("none");
  lifted.set_high_events(0);
  lifted.set_max_events(0);
  lifted.set_psi(1.25);
  lifted.set_lifted_from(64 << 20);
  EXPECT_EQ(container_pressure_text(status),
            "Pressure of containers (enforce)\n"
            "  container   cause      stage    high/s  max/s    PSI      at its limit  result\n"
            "  ns/web/app  own-limit  reclaim  12.0    unknown  unknown  2s            "
            "nothing?reclaimed\n"
            "  ns/db/app   none       none     0.0     0.0      1.2 %    -             memory.high "
            "is lifted, from 64Mi\n"
            "  watched: 2 containers\n"
            "  since the start: 3.0 MiB reclaimed; lifts of memory.high: 1, restored: 0\n");
}

// Its result is of a stage before.
TEST(ContainerPressureText, WhereNoStageFollowsTheReasonIsShown) {
  v1::ContainerPressureStatus status;
  v1::PressedCgroup& pressed = *status.add_pressed();
  pressed.set_subject("ns/web/app");
  pressed.set_cause("limit-above");
  pressed.set_stage("none");
  pressed.set_psi(12.3);
  pressed.set_result("16Mi reclaimed");
  std::string text = container_pressure_text(status);
  EXPECT_NE(text.find("12.3 %  -             only reported: a cgroup above it is full\n"),
            std::string::npos)
      << text;
  pressed.set_cause("node");
  text = container_pressure_text(status);
  EXPECT_NE(text.find("left to the thresholds of the node\n"), std::string::npos) << text;
  pressed.set_cause("unknown");
  text = container_pressure_text(status);
  EXPECT_NE(text.find("nothing is done: "), std::string::npos) << text;
}

TEST(ContainerPressureText, CountsWhatIsNotWatched) {
  v1::ContainerPressureStatus status;
  status.set_mode("observe");
  status.set_watched(1);
  status.set_exempt(1);
  status.set_not_watched(2);
  status.set_unread(3);
  status.set_unknown_pods(4);
  EXPECT_EQ(container_pressure_text(status),
            "Pressure of containers (observe)\n"
            "  watched: 1 container\n"
            "  exempt, of Guaranteed and static pods: 1 container\n"
            "  not watched, beyond the limit or for a reason in the log: 2 containers\n"
            "  not readable now, so that their pressure is unknown: 3 containers\n"
            "  pods whose containers are unknown: 4\n");
}

TEST(ContainerPressureText, WithAProblemNothingIsCounted) {
  v1::ContainerPressureStatus status;
  status.set_mode("observe");
  status.set_problem("cgroup v1 has no memory.high");
  EXPECT_EQ(container_pressure_text(status),
            "Pressure of containers (observe)\n"
            "  nothing is watched: cgroup v1 has no memory.high\n");
}

TEST(ContainerPressureText, LeavesOutAllButTwenty) {
  v1::ContainerPressureStatus status;
  for (int i = 0; i < 22; ++i) status.add_pressed()->set_subject("ns/web/app");
  status.set_pressed_left_out(5);
  EXPECT_NE(container_pressure_text(status).find("\n  and 7 more\n"), std::string::npos);
}

}  // namespace
}  // namespace forestall::cli
