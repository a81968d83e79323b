#include "fuse-client/link_presence.h"

namespace forebay {

std::string LinkPresence::Sentence(State state) const {
  const std::string link = "the link \"" + name_ + "\" was removed";
  if (state == State::kMadeAnew) {
    return link +
           " and made anew, and this mount shows the old one, of which only what the page cache "
           "has "
           "can be read: unmount it, and mount the new one";
  }
  return link +
         ", and only what the page cache has of it can be read: unmount it, or link it again and "
         "mount it anew";
}

}  // namespace forebay
