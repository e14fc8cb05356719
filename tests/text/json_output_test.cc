// SPDX-License-Identifier: Apache-2.0
#include "text/json_output.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace forestall::text {
namespace {

TEST(JsonOutput, PrintsOnOneLineOrIndented) {
  JsonOutput root = JsonOutput::object();
  root.set("drop-in", JsonOutput::list().add(true).add(1).add("a\"\n\x01"));
  root.set("empty", JsonOutput::object()).set("none", JsonOutput());
  EXPECT_EQ(root.line(), R"({"drop-in":[true,1,"a\"\n\u0001"],"empty":{},"none":null})");
  EXPECT_EQ(root.pretty(),
            "{\n  \"drop-in\": [\n    true,\n    1,\n    \"a\\\"\\n\\u0001\"\n  ],\n"
            "  \"empty\": {},\n  \"none\": null\n}\n");
}

TEST(JsonOutput, EscapesWhatATerminalWouldExecute) {
  const JsonOutput c1 = "a\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0";
  EXPECT_EQ(c1.line(), "\"a\\u0080\\u009b\\u009f\xc2\xa0\"");
  const JsonOutput turned = "\xe2\x80\xaa\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9\xe2\x80\xaf";
  EXPECT_EQ(turned.line(), "\"\\u202a\\u202e\\u2066\\u2069\xe2\x80\xaf\"");
  JsonOutput named = JsonOutput::object();
  named.set("\xe2\x80\xae", "caf\xc3\xa9 \xf0\x9f\x90\xa7");
  EXPECT_EQ(named.line(), "{\"\\u202e\":\"caf\xc3\xa9 \xf0\x9f\x90\xa7\"}");
}

TEST(JsonOutput, NumbersAreExact) {
  JsonOutput list = JsonOutput::list();
  list.add(std::numeric_limits<std::int64_t>::min());
  list.add(std::numeric_limits<std::uint64_t>::max());
  list.add(0.1).add(std::numeric_limits<double>::infinity());
  EXPECT_EQ(list.line(), "[-9223372036854775808,18446744073709551615,0.1,null]");
}

// Values that are built and values that are written at once have the same text.
TEST(JsonWriter, WritesWhatJsonOutputPrints) {
  JsonOutput root = JsonOutput::object();
  root.set("a", JsonOutput::list().add(-1).add(0.5).add("\t\x7F\xFF"));
  root.set("b", JsonOutput(std::numeric_limits<double>::quiet_NaN()));
  for (const JsonLayout layout : {JsonLayout::indented, JsonLayout::one_line}) {
    JsonWriter out(layout);
    out.begin_object();
    out.key("a");
    out.begin_list();
    out.value(-1);
    out.value(0.5);
    out.value("\t\x7F\xFF");
    out.end_list();
    out.member("b", std::numeric_limits<double>::quiet_NaN());
    out.end_object();
    EXPECT_EQ(std::move(out).take(), layout == JsonLayout::one_line ? root.line() : root.pretty());
  }
  EXPECT_EQ(root.line(), "{\"a\":[-1,0.5,\"\\t\\u007f\xEF\xBF\xBD\"],\"b\":null}");
}

std::string nested_lists(bool in_pieces) {
  constexpr int kLevels = 20;  // of more indentation than one append has
  JsonWriter out;
  std::string pieces;
  const auto pass_on = [&] {
    if (!in_pieces) return;
    pieces += out.written();
    out.forget_written();
  };
  for (int i = 0; i < kLevels; ++i) {
    out.begin_object();
    out.key("in");
    pass_on();
  }
  out.value("a");
  pass_on();
  for (int i = 0; i < kLevels; ++i) {
    out.member("after", i);
    pass_on();
    out.end_object();
  }
  return pieces + std::move(out).take();
}

TEST(JsonWriter, PiecesMakeTheSameText) {
  const std::string whole = nested_lists(false);
  EXPECT_EQ(nested_lists(true), whole);
  EXPECT_NE(whole.find("\n" + std::string(40, ' ') + "\"after\": 0\n"), std::string::npos);
}

}  // namespace
}  // namespace forestall::text
