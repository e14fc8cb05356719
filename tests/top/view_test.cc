// SPDX-License-Identifier: Apache-2.0
// How keys and clicks change the view.
#include "top/view.h"

#include <gtest/gtest.h>

namespace forestall::top {
namespace {

using namespace std::chrono_literals;

Input key(char32_t character) {
  Input input;
  input.character = character;
  return input;
}

Input other(Input::Kind kind, int x = 0, int y = 0) {
  Input input;
  input.kind = kind;
  input.x = x;
  input.y = y;
  return input;
}

Layout layout_of(int rows, int page) {
  Layout layout;
  layout.headings_y = 4;
  layout.headings = {{0, 4, Column::order},
                     {4, 12, Column::name},
                     {16, 10, Column::working_set},
                     {26, 20, Column::why}};
  layout.page = page;
  layout.ranking = "kubelet";
  for (int i = 0; i < rows; ++i) layout.order.push_back("/w" + std::to_string(i));
  for (int i = 0; i < std::min(rows, page); ++i) {
    layout.rows.push_back({5 + i, layout.order[static_cast<std::size_t>(i)]});
  }
  return layout;
}

TEST(Keys, QuitAndHelp) {
  const Layout layout = layout_of(3, 5);
  View view;
  EXPECT_EQ(apply(key('?'), layout, view), Command::none);
  EXPECT_TRUE(view.help);
  EXPECT_EQ(apply(key('k'), layout, view), Command::none) << "any key only leaves the help";
  EXPECT_FALSE(view.help);
  EXPECT_EQ(view.ranking, "");
  EXPECT_EQ(apply(key('q'), layout, view), Command::quit);
}

TEST(Keys, TheRankingKeyToggles) {
  Layout layout = layout_of(3, 5);
  View view;
  view.sort = Column::stall;
  EXPECT_EQ(apply(key('k'), layout, view), Command::resample);
  EXPECT_EQ(view.ranking, "kernel");
  EXPECT_EQ(view.sort, Column::order) << "a requested order is shown";
  layout.ranking = "kernel";
  EXPECT_EQ(apply(key('k'), layout, view), Command::resample);
  EXPECT_EQ(view.ranking, "kubelet");
}

TEST(Keys, TheSortKeyCyclesThroughTheColumns) {
  const Layout layout = layout_of(3, 5);
  View view;
  std::vector<Column> seen;
  for (int i = 0; i < 3; ++i) {
    (void)apply(key('s'), layout, view);
    seen.push_back(view.sort);
  }
  EXPECT_EQ(seen, (std::vector{Column::name, Column::working_set, Column::order}));
  (void)apply(key('r'), layout, view);
  EXPECT_TRUE(view.reversed);
}

TEST(Keys, SelectionMovesAndStaysInside) {
  const Layout layout = layout_of(20, 5);
  View view;
  (void)apply(other(Input::Kind::down), layout, view);
  EXPECT_EQ(view.selected, "/w0");
  (void)apply(other(Input::Kind::page_down), layout, view);
  EXPECT_EQ(view.selected, "/w5");
  (void)apply(other(Input::Kind::end), layout, view);
  (void)apply(other(Input::Kind::down), layout, view);
  EXPECT_EQ(view.selected, "/w19");
  (void)apply(other(Input::Kind::home), layout, view);
  (void)apply(other(Input::Kind::up), layout, view);
  EXPECT_EQ(view.selected, "/w0");
  (void)apply(other(Input::Kind::escape), layout, view);
  EXPECT_EQ(view.selected, std::nullopt);
  View none;
  (void)apply(other(Input::Kind::down), layout_of(0, 5), none);
  EXPECT_EQ(none.selected, std::nullopt);
}

TEST(Keys, FilterIsTypedAndTakenBack) {
  const Layout layout = layout_of(3, 5);
  View view;
  (void)apply(key('/'), layout, view);
  for (const char32_t each : U"qé") {
    if (each != 0) {
      EXPECT_EQ(apply(key(each), layout, view), Command::none) << "q is a letter here";
    }
  }
  EXPECT_EQ(view.filter, "qé");
  (void)apply(other(Input::Kind::backspace), layout, view);
  EXPECT_EQ(view.filter, "q") << "a whole character";
  (void)apply(other(Input::Kind::enter), layout, view);
  EXPECT_FALSE(view.filtering);
  EXPECT_EQ(view.filter, "q");
  (void)apply(other(Input::Kind::escape), layout, view);
  EXPECT_EQ(view.filter, "");
}

TEST(Keys, IntervalKeepsItsBounds) {
  const Layout layout = layout_of(3, 5);
  View view;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(apply(key('-'), layout, view), Command::resample);
  EXPECT_EQ(view.interval, kIntervalMin);
  for (int i = 0; i < 20; ++i) (void)apply(key('+'), layout, view);
  EXPECT_EQ(view.interval, kIntervalMax);
  EXPECT_EQ(longer(700ms), 1s);
  EXPECT_EQ(shorter(700ms), 500ms);
}

TEST(Keys, ShowsThatItIsPaused) {
  View view;
  EXPECT_EQ(apply(key('p'), layout_of(3, 5), view), Command::resample);
  EXPECT_TRUE(view.paused);
}

TEST(Keys, EnterOpensTheSelectedWorkloadAndEscapeClosesIt) {
  const Layout layout = layout_of(20, 5);
  View view;
  EXPECT_EQ(apply(other(Input::Kind::enter), layout, view), Command::none);
  EXPECT_EQ(view.selected, "/w0") << "the first Enter selects";
  EXPECT_EQ(view.opened, std::nullopt);
  (void)apply(other(Input::Kind::down), layout, view);
  view.process_scroll = 7;
  EXPECT_EQ(apply(other(Input::Kind::enter), layout, view), Command::resample);
  EXPECT_EQ(view.opened, "/w1");
  EXPECT_EQ(view.process_scroll, 0);
  EXPECT_EQ(apply(other(Input::Kind::escape), layout, view), Command::resample);
  EXPECT_EQ(view.opened, std::nullopt);
  EXPECT_EQ(view.selected, "/w1");
}

TEST(Keys, ScrollProcessesWithinTheirNumber) {
  Layout layout = layout_of(3, 5);
  layout.processes = 12;
  View view;
  view.selected = "/w1";
  view.opened = "/w1";
  const auto after = [&](Input::Kind kind) {
    EXPECT_EQ(apply(other(kind), layout, view), Command::none);
    layout.process_scroll = view.process_scroll;
    return view.process_scroll;
  };
  EXPECT_EQ(after(Input::Kind::up), 0);
  EXPECT_EQ(after(Input::Kind::down), 1);
  EXPECT_EQ(after(Input::Kind::page_down), 6);
  EXPECT_EQ(after(Input::Kind::page_down), 7) << "the last page is full";
  EXPECT_EQ(after(Input::Kind::wheel_up), 4);
  EXPECT_EQ(after(Input::Kind::home), 0);
  EXPECT_EQ(after(Input::Kind::end), 7);
  EXPECT_EQ(view.selected, "/w1");
  EXPECT_EQ(apply(key('s'), layout, view), Command::none) << "sorted by RSS";
  EXPECT_EQ(view.sort, Column::order);
  EXPECT_EQ(apply(key('p'), layout, view), Command::resample);
  EXPECT_EQ(apply(key('h'), layout, view), Command::none);
  EXPECT_TRUE(view.help);
  (void)apply(other(Input::Kind::escape), layout, view);
  EXPECT_FALSE(view.help);
  EXPECT_EQ(view.opened, "/w1") << "Escape closes the help only";
  EXPECT_EQ(apply(key('q'), layout, view), Command::quit);
}

TEST(Mouse, SelectsARowAndLetsItGo) {
  const Layout layout = layout_of(20, 5);
  View view;
  (void)apply(other(Input::Kind::click, 10, 7), layout, view);
  EXPECT_EQ(view.selected, "/w2");
  (void)apply(other(Input::Kind::click, 10, 7), layout, view);
  EXPECT_EQ(view.selected, std::nullopt);
  (void)apply(other(Input::Kind::click, 10, 1), layout, view);
  EXPECT_EQ(view.selected, std::nullopt) << "nothing is there";
}

TEST(Mouse, AHeadingSortsAndTurnsRound) {
  const Layout layout = layout_of(20, 5);
  View view;
  (void)apply(other(Input::Kind::click, 17, 4), layout, view);
  EXPECT_EQ(view.sort, Column::working_set);
  EXPECT_FALSE(view.reversed);
  (void)apply(other(Input::Kind::click, 17, 4), layout, view);
  EXPECT_TRUE(view.reversed);
  (void)apply(other(Input::Kind::click, 5, 4), layout, view);
  EXPECT_EQ(view.sort, Column::name);
  EXPECT_FALSE(view.reversed);
}

TEST(Mouse, TheWheelScrollsAndDeselectsHiddenRows) {
  Layout layout = layout_of(20, 5);
  View view;
  view.selected = "/w1";
  (void)apply(other(Input::Kind::wheel_down), layout, view);
  EXPECT_EQ(view.scroll, 3);
  EXPECT_EQ(view.selected, std::nullopt);
  layout.scroll = 14;
  (void)apply(other(Input::Kind::wheel_down), layout, view);
  EXPECT_EQ(view.scroll, 15) << "the last page is full";
  layout.scroll = 1;
  (void)apply(other(Input::Kind::wheel_up), layout, view);
  EXPECT_EQ(view.scroll, 0);
}

}  // namespace
}  // namespace forestall::top
