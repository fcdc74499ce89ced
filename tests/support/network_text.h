/* A network as lines of text, so that a test in another language can say which graph it means:
 *
 *   input x f32 3 8 8            the batch comes first and is not written
 *   image x 3 8 8                channels, height, width; stored channels-last
 *   conv2d y x channels=5 kernel=3 padding=same
 *   relu z y
 *   add s z y
 *   output features s
 *   softmax_cross_entropy loss logits label smoothing=0.1
 *   loss loss
 *   model resnet50 classes=5 image_size=64
 *
 * First the operation, then the name of its result, the names of its inputs, and its options. */
#ifndef SUPPORT_NETWORK_TEXT_H
#define SUPPORT_NETWORK_TEXT_H

struct error;
struct graph;

/* A finished graph, the caller's to destroy. */
int network_from_text(const char *text, struct graph **out, struct error *err);

#endif
