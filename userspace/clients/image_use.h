// SPDX-License-Identifier: Apache-2.0
// Which images are referenced. Runtimes refer to an image by tag, by digest, or by ID with and
// without "sha256:", and use different fields for each. An image is in use if any of its references
// is among the collected references.
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
  // Adds a name, a name@digest or an ID; an empty string is ignored.
  void add(std::string_view reference);
  [[nodiscard]] bool covers(const StoredImage& image) const;

 private:
  [[nodiscard]] bool contains(std::string_view name) const;

  std::unordered_set<std::string> known_;
};

// The order in which unused images are removed: the largest first, then by ID.
[[nodiscard]] bool goes_before(const StoredImage& a, const StoredImage& b);

}  // namespace forestall::clients
