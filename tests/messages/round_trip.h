// SPDX-License-Identifier: Apache-2.0
// from_proto(to_proto(x)) == x: directly, through JSON and through the wire format.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "messages/convert.h"
#include "messages/json.h"

namespace forestall::test {

template <typename Model>
void expect_round_trip(const Model& model, std::uint32_t seed) {
  const auto message = messages::to_proto(model);
  const auto direct = messages::from_proto(message);
  ASSERT_TRUE(direct.ok()) << direct.error().text();
  ASSERT_EQ(*direct, model) << "seed " << seed;

  auto read = message;
  const std::string json = messages::to_json(message, messages::JsonStyle::line);
  const auto parsed = messages::from_json(json, read);
  ASSERT_TRUE(parsed.ok()) << parsed.error().text() << "\n" << json;
  ASSERT_EQ(*messages::from_proto(read), model) << "seed " << seed << "\n" << json;
  ASSERT_EQ(messages::to_json(read, messages::JsonStyle::line), json);

  ASSERT_TRUE(read.ParseFromString(message.SerializeAsString()));
  ASSERT_EQ(*messages::from_proto(read), model) << "seed " << seed;
}

}  // namespace forestall::test
