// SPDX-License-Identifier: Apache-2.0
#include "text/json_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/json_writer.h"
#include "text/yaml_json.h"

namespace forestall::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(JsonStream, FindsDocumentsAndTheirItems) {
  const auto documents =
      split_json("{\"a\": [1, 2]} [3]\n{\"items\": [{\"b\": \"]}\"}, {}], \"kind\": \"List\"}");
  ASSERT_TRUE(documents) << documents.error().text();
  ASSERT_THAT(*documents, SizeIs(3));
  EXPECT_EQ((*documents)[1].text, "[3]");
  EXPECT_FALSE((*documents)[0].has_items);
  EXPECT_TRUE((*documents)[2].has_items);
  EXPECT_THAT((*documents)[2].items, ElementsAre("{\"b\": \"]}\"}", "{}"));
  EXPECT_EQ((*documents)[2].frame, "{\"items\": [], \"kind\": \"List\"}");
}

TEST(JsonStream, FindsItemsBehindAnyIndentation) {
  for (std::size_t spaces = 0; spaces < 20; ++spaces) {
    const std::string line = "\n" + std::string(spaces, ' ');
    const std::string item = "{" + line + "\"a\":" + line + "[1," + line + "2]" + line + "}";
    const std::string text = "{\"items\": [" + line + item + "," + line + item + line + "]}";
    const auto documents = split_json(text);
    ASSERT_TRUE(documents) << documents.error().text();
    EXPECT_THAT(documents->at(0).items, ElementsAre(item, item));
    EXPECT_FALSE(split_json("{\"a\": [" + line));
  }
}

TEST(JsonStream, OnlyItemsOfTheOutermostObjectCount) {
  const auto documents = split_json(R"({"spec": {"items": [{}]}, "x": "items"})");
  ASSERT_TRUE(documents);
  EXPECT_FALSE((*documents)[0].has_items);
}

TEST(JsonStream, EscapedQuotesDoNotEndStrings) {
  const auto documents = split_json(R"({"a": "\\", "b": "\"}"})");
  ASSERT_TRUE(documents) << documents.error().text();
  EXPECT_THAT(*documents, SizeIs(1));
}

TEST(JsonStream, NamesThePlaceOfWhatIsNotClosed) {
  for (const char* const text : {"{\"a\": \"x}", "{\"a\": [}", "{} nonsense", "{\"items\": [1]}"}) {
    const auto documents = split_json(text);
    ASSERT_FALSE(documents) << text;
    EXPECT_THAT(documents.error().text(), HasSubstr("1:")) << text;
  }
}

TEST(YamlJson, KeepsTypesAndSplitsDocuments) {
  const auto documents = split_yaml("# none\n---\na: 1\n---\nb: [true, ~, '2', x, 1.5]\n");
  ASSERT_THAT(documents, SizeIs(2));
  EXPECT_EQ(documents[1].line, 5U);
  std::vector<Diagnostic> problems;
  const auto tree = parse_yaml(documents[1].text, problems);
  ASSERT_TRUE(tree);
  EXPECT_EQ(to_json(*tree),
            "{\n  \"b\": [\n    true,\n    null,\n    \"2\",\n    \"x\",\n    1.5\n  ]\n}\n");
}

TEST(JsonWriter, EscapesWhereverACharacterStands) {
  JsonWriter out(JsonLayout::one_line);
  out.value("\"in the \x01 middle \\ and € at the end\n");
  EXPECT_EQ(std::move(out).take(), R"("\"in the \u0001 middle \\ and € at the end\n")");
}

TEST(JsonWriter, WritesEmptyAndNestedValues) {
  JsonWriter out;
  out.begin_object();
  out.key("empty");
  out.begin_list();
  out.end_list();
  out.member("text", "a\"\n");
  out.member("number", 2.5);
  out.key("inner");
  out.begin_object();
  out.member("truth", true);
  out.end_object();
  out.end_object();
  EXPECT_EQ(std::move(out).take(),
            "{\n  \"empty\": [],\n  \"text\": \"a\\\"\\n\",\n  \"number\": 2.5,\n"
            "  \"inner\": {\n    \"truth\": true\n  }\n}\n");
}

}  // namespace
}  // namespace forestall::text
