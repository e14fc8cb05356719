// SPDX-License-Identifier: Apache-2.0
#include "clients/image_use.h"

#include <algorithm>

namespace forestall::clients {
namespace {

constexpr std::string_view kAlgorithm = "sha256:";

// The digits of an ID or of the digest after a name's '@'; empty for a name with a tag.
std::string_view digits_of(std::string_view reference) {
  if (const auto at = reference.rfind('@'); at != std::string_view::npos) {
    reference.remove_prefix(at + 1);
  }
  if (reference.starts_with(kAlgorithm)) return reference.substr(kAlgorithm.size());
  const bool bare = reference.size() == 64 &&
                    reference.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return bare ? reference : std::string_view();
}

}  // namespace

void ImageReferences::add(std::string_view reference) {
  if (reference.empty()) return;
  known_.emplace(reference);
  if (const auto digits = digits_of(reference); !digits.empty()) known_.emplace(digits);
}

bool ImageReferences::contains(std::string_view name) const {
  if (known_.contains(std::string(name))) return true;
  const auto digits = digits_of(name);
  return !digits.empty() && known_.contains(std::string(digits));
}

bool ImageReferences::covers(const StoredImage& image) const {
  return contains(image.id) || std::any_of(image.names.begin(), image.names.end(),
                                           [this](const auto& name) { return contains(name); });
}

bool goes_before(const StoredImage& a, const StoredImage& b) {
  if (a.size != b.size) return a.size > b.size;
  return a.id < b.id;
}

}  // namespace forestall::clients
