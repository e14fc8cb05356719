// SPDX-License-Identifier: Apache-2.0
#include "model/filesystem.h"

namespace forestall {

std::string_view to_string(FilesystemLayout layout) {
  switch (layout) {
    case FilesystemLayout::single: return "single";
    case FilesystemLayout::imagefs: return "imagefs";
    case FilesystemLayout::split: return "split";
  }
  return "";
}

std::optional<FilesystemLayout> parse_filesystem_layout(std::string_view text) {
  for (const FilesystemLayout layout :
       {FilesystemLayout::single, FilesystemLayout::imagefs, FilesystemLayout::split}) {
    if (to_string(layout) == text) return layout;
  }
  return std::nullopt;
}

}  // namespace forestall
