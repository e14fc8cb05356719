// SPDX-License-Identifier: Apache-2.0
#include "text/json_output.h"

#include <gtest/gtest.h>

#include <limits>

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

TEST(JsonOutput, NumbersAreExact) {
  JsonOutput list = JsonOutput::list();
  list.add(std::numeric_limits<std::int64_t>::min());
  list.add(std::numeric_limits<std::uint64_t>::max());
  list.add(0.1).add(std::numeric_limits<double>::infinity());
  EXPECT_EQ(list.line(), "[-9223372036854775808,18446744073709551615,0.1,null]");
}

}  // namespace
}  // namespace forestall::text
