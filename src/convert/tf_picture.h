/* What an encoded picture becomes for the network, as a function of TensorFlow's. */
#ifndef CONVERT_TF_PICTURE_H
#define CONVERT_TF_PICTURE_H

struct strbuf;

extern const char tf_picture_function[]; /* its name */

/* Appends the function to a FunctionDefLibrary: a JPEG or PNG of any size to [side, side, 3], as
 * pictures_centre (data/pictures.h) does it for evaluation. */
void tf_picture_write(int side, struct strbuf *library);

#endif
