// SPDX-License-Identifier: Apache-2.0
// Finds the documents of a text of concatenated JSON objects and lists, and the objects of their
// lists of `items`, so that a parser gets one object at a time. It finds ends and checks nothing
// else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/diagnostic.h"

namespace forestall::text {

struct JsonDocumentSpan {
  std::size_t begin = 0;  // offset in the text
  std::string_view text;
  bool has_items = false;
  std::vector<std::string_view> items;  // objects of the list "items" of the document
  std::string frame;                    // the document with an empty list of items
};

// Errors begin with LINE:COLUMN.
[[nodiscard]] Result<std::vector<JsonDocumentSpan>> split_json(std::string_view text);

// Columns count bytes.
[[nodiscard]] Position position_of(std::string_view text, std::size_t offset);

}  // namespace forestall::text
