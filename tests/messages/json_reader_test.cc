// SPDX-License-Identifier: Apache-2.0
// What the JSON reader accepts; for everything else, the error and its place.
#include "messages/json_reader.h"

#include <gtest/gtest.h>

#include <cmath>

#include "forestall/v1/config.pb.h"
#include "forestall/v1/doctor.pb.h"
#include "forestall/v1/effective_config.pb.h"
#include "forestall/v1/observation.pb.h"
#include "forestall/v1/record.pb.h"
#include "messages/json.h"

namespace forestall::test {
namespace {

using messages::JsonReader;

// A reader on text with nothing readable after its padding.
template <typename Message>
Result<void> read(JsonReader& reader, std::string_view json, Message& message) {
  const std::string padded = std::string(json) + std::string(JsonReader::kPadding, '"');
  return reader.read(std::string_view(padded).substr(0, json.size()), message);
}

template <typename Message = v1::Observation>
std::string reader_refusal(std::string_view json) {
  JsonReader reader;
  Message message;
  const auto done = read(reader, json, message);
  if (done) return "accepted";
  return std::to_string(reader.error_offset()) + ": " + done.error().text();
}

template <typename Message = v1::Observation>
Message accepted(std::string_view json) {
  JsonReader reader;
  Message message;
  const auto done = read(reader, json, message);
  EXPECT_TRUE(done.ok()) << json << "\n" << done.error().text();
  return message;
}

TEST(JsonReader, BothSpellingsOfAKey) {
  EXPECT_EQ(accepted(R"({"atNs":5})").at_ns(), 5);
  EXPECT_EQ(accepted(R"({"at_ns":5})").at_ns(), 5);
  EXPECT_EQ(accepted(R"({"\u0061tNs":5})").at_ns(), 5);
  EXPECT_EQ(reader_refusal(R"({"atNs":5,"at_ns":5})"), "10: key 'at_ns' occurs twice");
  EXPECT_EQ(reader_refusal(R"({"atNs":5,"atNs":5})"), "10: key 'atNs' occurs twice");
  EXPECT_EQ(reader_refusal(R"({"AtNs":5})").substr(0, 36), "1: unknown key 'AtNs'; did you mean ");
}

TEST(JsonReader, AnyOrderOfKeysAndBlanks) {
  const auto message = accepted(
      " {\r\n\t\"notes\" : [ ] , \"node\" : { \"usageBytes\" : 1 , \"capacityBytes\" : 2 } ,\n"
      "\"atNs\" : 3 } \n");
  EXPECT_EQ(message.at_ns(), 3);
  EXPECT_EQ(message.node().usage_bytes(), 1);
  EXPECT_EQ(message.node().capacity_bytes(), 2);
}

TEST(JsonReader, UnknownKeysAreNamedWithTheirPath) {
  EXPECT_EQ(
      reader_refusal(R"({"atNs":1,"workloads":[{},{"workload":{"colour":1}}]})").substr(0, 58),
      "39: workloads[1].workload: unknown key 'colour'; allowed h");
  EXPECT_EQ(
      reader_refusal<v1::Limit>(R"({"quantitty":"1"})"),
      "1: unknown key 'quantitty'; did you mean 'quantity'? Allowed here: quantity, fraction");
}

TEST(JsonReader, Integers) {
  EXPECT_EQ(accepted(R"({"atNs":-9223372036854775808})").at_ns(), INT64_MIN);
  EXPECT_EQ(accepted(R"({"atNs":"9223372036854775807"})").at_ns(), INT64_MAX);
  EXPECT_EQ(accepted(R"({"atNs":1e3})").at_ns(), 1000);
  EXPECT_EQ(accepted(R"({"atNs":2.0})").at_ns(), 2);
  EXPECT_EQ(accepted(R"({"atNs":-0})").at_ns(), 0);
  EXPECT_EQ(accepted<v1::CgroupSample>(R"({"cgroupId":18446744073709551615})").cgroup_id(),
            UINT64_MAX);
  EXPECT_EQ(accepted<v1::CgroupSample>(R"({"threshold":4294967295})").threshold(), UINT32_MAX);
  EXPECT_EQ(accepted<v1::Workload>(R"({"priority":-2147483648})").priority(), INT32_MIN);
}

TEST(JsonReader, IntegersOutOfRange) {
  EXPECT_EQ(reader_refusal(R"({"atNs":9223372036854775808})"),
            "8: atNs: '9223372036854775808' is out of range (-9223372036854775808 to "
            "9223372036854775807)");
  EXPECT_EQ(reader_refusal(R"({"atNs":1e300})").substr(0, 31), "8: atNs: '1e300' is out of rang");
  EXPECT_EQ(reader_refusal(R"({"atNs":1e999})").substr(0, 31), "8: atNs: '1e999' is out of rang");
  EXPECT_EQ(reader_refusal<v1::CgroupSample>(R"({"cgroupId":-1})"),
            "12: cgroupId: '-1' is out of range (0 to 18446744073709551615)");
  EXPECT_EQ(reader_refusal<v1::Workload>(R"({"priority":2147483648})"),
            "12: priority: '2147483648' is out of range (-2147483648 to 2147483647)");
  EXPECT_EQ(reader_refusal<v1::CgroupSample>(R"({"threshold":4294967296})"),
            "13: threshold: '4294967296' is out of range (0 to 4294967295)");
}

TEST(JsonReader, RejectsInvalidIntegers) {
  EXPECT_EQ(reader_refusal(R"({"atNs":1.5})"), "8: atNs: must be a whole number, found '1.5'");
  EXPECT_EQ(reader_refusal(R"({"atNs":"x"})"), "8: atNs: expected a number, found the string 'x'");
  EXPECT_EQ(reader_refusal(R"({"atNs":""})"), "8: atNs: expected a number, found the string ''");
  EXPECT_EQ(reader_refusal(R"({"atNs":" 1"})"),
            "8: atNs: expected a number, found the string ' 1'");
  EXPECT_EQ(reader_refusal(R"({"atNs":true})"), "8: atNs: expected a number, found a boolean");
  EXPECT_EQ(reader_refusal(R"({"atNs":{}})"), "8: atNs: expected a number, found an object");
  EXPECT_EQ(reader_refusal(R"({"atNs":[1]})"), "8: atNs: expected a number, found a list");
  EXPECT_EQ(reader_refusal(R"({"atNs":NaN})"),
            "8: atNs: expected a number, found invalid JSON: 'NaN'");
  EXPECT_EQ(reader_refusal(R"({"atNs":+1})"),
            "8: atNs: expected a number, found invalid JSON: '+1'");
  for (const char* wrong : {"01", "1.", ".5", "1e", "0x10", "1x", "--1", "-", "1_000"}) {
    EXPECT_EQ(reader_refusal("{\"atNs\":" + std::string(wrong) + "}").substr(0, 26),
              "8: atNs: expected a number")
        << wrong;
  }
}

TEST(JsonReader, Floats) {
  EXPECT_EQ(accepted<v1::Limit>(R"({"fraction":0.1})").fraction(), 0.1F);
  EXPECT_EQ(accepted<v1::Limit>(R"({"fraction":"0.1"})").fraction(), 0.1F);
  EXPECT_EQ(accepted<v1::Limit>(R"({"fraction":1})").fraction(), 1.0F);
  EXPECT_TRUE(std::isnan(accepted<v1::Limit>(R"({"fraction":"NaN"})").fraction()));
  EXPECT_TRUE(std::isinf(accepted<v1::Limit>(R"({"fraction":"-Infinity"})").fraction()));
  EXPECT_EQ(reader_refusal<v1::Limit>(R"({"fraction":1e39})"),
            "12: fraction: '1e39' is out of range");
  EXPECT_EQ(reader_refusal<v1::Limit>(R"({"fraction":NaN})"),
            "12: fraction: expected a number, found invalid JSON: 'NaN'");
  EXPECT_EQ(reader_refusal<v1::Limit>(R"({"fraction":"inf"})"),
            "12: fraction: expected a number, found the string 'inf'");
}

TEST(JsonReader, OneOfManyOnce) {
  EXPECT_EQ(reader_refusal<v1::Limit>(R"({"fraction":1,"quantity":"1"})"),
            "25: quantity: conflicts with 'fraction', which is also set");
}

TEST(JsonReader, Words) {
  for (const char* word : {"kill-progress", "KILL_PROGRESS", "Kill_Progress", "KILL-progress"}) {
    EXPECT_EQ(accepted<v1::Wake>("{\"source\":\"" + std::string(word) + "\"}").source(),
              v1::Wake::KILL_PROGRESS);
  }
  EXPECT_EQ(accepted<v1::Wake>(R"({"source":13})").source(), v1::Wake::KILL_PROGRESS);
  EXPECT_EQ(static_cast<int>(accepted<v1::Wake>(R"({"source":-7})").source()), -7);
  EXPECT_EQ(reader_refusal<v1::KillProgress>(R"({"state":"dead"})"),
            "9: state: unknown word 'dead'; allowed here: in-flight, released, stuck, failed, "
            "terminating");
  EXPECT_EQ(reader_refusal<v1::Wake>(R"({"source":1.5})"),
            "10: source: expected a word, found a number");
  EXPECT_EQ(reader_refusal<v1::Wake>(R"({"source":false})"),
            "10: source: expected a word, found a boolean");
}

TEST(JsonReader, Strings) {
  EXPECT_EQ(
      accepted<v1::SourceNote>(R"({"subject":"\u00e9\ud834\udd1e\n\"\\\/\u0000x"})").subject(),
      std::string("é𝄞\n\"\\/\0x", 12));
  EXPECT_EQ(reader_refusal<v1::SourceNote>(R"({"subject":1})"),
            "11: subject: expected a string, found a number");
  EXPECT_EQ(reader_refusal<v1::SourceNote>("{\"subject\":\"a\xff\"}"), "0: not UTF-8");
  EXPECT_EQ(reader_refusal<v1::SourceNote>("{\"subject\":\"a\nb\"}"),
            "0: control character in a string");
  EXPECT_NE(reader_refusal<v1::SourceNote>(R"({"subject":"\ud834"})"), "accepted");
  EXPECT_NE(reader_refusal<v1::SourceNote>(R"({"subject":"\x"})"), "accepted");
}

TEST(JsonReader, BooleansAndNull) {
  EXPECT_TRUE(accepted(R"({"workloadsRead":true})").workloads_read());
  EXPECT_FALSE(accepted(R"({"workloadsRead":null})").has_workloads_read());
  EXPECT_FALSE(accepted(R"({"wake":null,"watched":null})").has_wake());
  EXPECT_EQ(reader_refusal(R"({"workloadsRead":1})"),
            "17: workloadsRead: expected true or false, found a number");
  EXPECT_EQ(reader_refusal(R"({"workloadsRead":truest})"),
            "17: workloadsRead: expected true or false, found a boolean");
  EXPECT_EQ(reader_refusal(R"({"workloadsRead":nul})"),
            "17: workloadsRead: expected a value, found invalid JSON");
  EXPECT_EQ(reader_refusal(R"({"watched":[null]})"),
            "12: watched[0]: expected an object, found null");
}

TEST(JsonReader, ListsAndObjects) {
  EXPECT_EQ(accepted(R"({"watched":[{},{"path":"/a"}]})").watched(1).path(), "/a");
  EXPECT_EQ(reader_refusal(R"({"watched":{}})"), "11: watched: expected a list, found an object");
  EXPECT_EQ(reader_refusal(R"({"wake":[]})"), "8: wake: expected an object, found a list");
  EXPECT_EQ(reader_refusal(R"({"watched":[{},{"path":1}]})"),
            "23: watched[1].path: expected a string, found a number");
  EXPECT_EQ(accepted<v1::EffectiveConfig>(R"({"disableFeatures":["a","b"]})").disable_features(1),
            "b");
  EXPECT_EQ(accepted<v1::Decision>(R"({"nodeReclaim":["unused-images"]})").node_reclaim(0),
            v1::Decision::UNUSED_IMAGES);
}

TEST(JsonReader, Maps) {
  const auto config = accepted<v1::Config>(R"({"evictionHard":{"a.b":"1","":"2"}})");
  EXPECT_EQ(config.eviction_hard().size(), 2);
  EXPECT_EQ(config.eviction_hard().at("a.b"), "1");
  EXPECT_EQ(reader_refusal<v1::Config>(R"({"evictionHard":{"a":"1","a":"2"}})"),
            "25: evictionHard: key 'a' occurs twice");
  EXPECT_EQ(reader_refusal<v1::Config>(R"({"evictionHard":{"a":1}})"),
            "21: evictionHard.a: expected a string, found a number");
}

TEST(JsonReader, Times) {
  EXPECT_EQ(accepted<v1::Record>(R"({"wallTime":"1970-01-01T00:00:01.5Z"})").wall_time().nanos(),
            500'000'000);
  EXPECT_EQ(reader_refusal<v1::Record>(R"({"wallTime":"now"})"),
            "12: wallTime: 'now' is not a time; write one like 2026-11-21T08:00:00.5Z");
  EXPECT_EQ(reader_refusal<v1::Record>(R"({"wallTime":1})"),
            "12: wallTime: expected a time, as a string, found a number");
}

TEST(JsonReader, RejectsInvalidObjects) {
  EXPECT_EQ(reader_refusal(""), "0: empty");
  EXPECT_EQ(reader_refusal("  "), "0: empty");
  EXPECT_EQ(reader_refusal("null"), "0: expected an object, found null");
  EXPECT_EQ(reader_refusal("[]"), "0: expected an object, found a list");
  EXPECT_EQ(reader_refusal("12"), "0: expected an object, found a number");
  EXPECT_EQ(reader_refusal("hello"), "0: expected an object, found invalid JSON: 'hello'");
  EXPECT_EQ(reader_refusal(R"({"atNs":1} {"atNs":2})"), "11: text after the end of the object");
  for (const char* cut : {"{", R"({"atNs)", R"({"atNs")", R"({"atNs":)", R"({"atNs":1)",
                          R"({"atNs":1,)", R"({"wake":{"atNs":1})", R"({"watched":[{})"}) {
    const std::string refused = reader_refusal(cut);
    EXPECT_TRUE(refused.starts_with(std::to_string(std::string_view(cut).size()) + ": "))
        << refused;
    EXPECT_TRUE(refused.ends_with("ends unexpectedly")) << refused;
  }
  for (const char* wrong :
       {R"({"atNs":1,})", R"({"atNs" 1})", R"({atNs:1})", R"({"atNs":1 2})", R"({"atNs":1}})",
        R"({,})", R"({"watched":[{}{}]})", R"({"watched":[,]})", R"({"watched":[{},]})",
        R"({'atNs':1})", R"({"atNs"::1})", R"({"atNs":1;})", "{}x", "{}\"", "{}[]"}) {
    EXPECT_NE(reader_refusal(wrong), "accepted") << wrong;
  }
}

// A reader can be reused after each read, failed or not.
TEST(JsonReader, IsUsedAgain) {
  JsonReader reader;
  v1::Observation message;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(read(reader, R"({"atNs":1,"node":{"usageBytes":"many"}})", message).ok());
    ASSERT_TRUE(read(reader, R"({"node":{}})", message).ok());
    EXPECT_FALSE(message.has_at_ns());
    EXPECT_FALSE(message.node().has_usage_bytes());
    EXPECT_FALSE(read(reader, R"({"atNs":)", message).ok());
  }
}

TEST(FromJson, ReportsLineAndColumn) {
  v1::Observation message;
  const auto failed = messages::from_json("{\n  \"atNs\": 1,\n  \"colour\": 2\n}\n", message);
  EXPECT_EQ(failed.error().text().substr(0, 27), "3:3: unknown key 'colour'; ");
}

}  // namespace
}  // namespace forestall::test
