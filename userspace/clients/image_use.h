// SPDX-License-Identifier: Apache-2.0
// Which images somebody refers to. Runtimes name an image in many ways: by tag, by digest, by ID
// with and without "sha256:", and put each of them into different fields; an image is in use when
// any way in which it is known is among the ways in which it is referred to.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/bytes.h"

namespace forestall::clients {

struct StoredImage {
  std::string id;                  // "sha256:…" or bare digits
  std::vector<std::string> names;  // tags and name@digest
  Bytes size;
  bool pinned = false;
};

class ImageReferences {
 public:
  // A name, a name@digest or an ID; empty is no reference.
  void add(std::string_view reference);
  [[nodiscard]] bool covers(const StoredImage& image) const;

 private:
  [[nodiscard]] bool knows(std::string_view name) const;

  std::unordered_set<std::string> known_;
};

// The order in which unused images go: the largest first, then by ID.
[[nodiscard]] bool goes_before(const StoredImage& a, const StoredImage& b);

}  // namespace forestall::clients
